"""Tasks as people write them, and the day on which they are due (or `-` for none).

Monday 2024-01-15 12:00 UTC, unless the line names another moment and time zone. `HELD_BACK` was written
before any rule, by the same author, and no rule was corrected by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

NOW = datetime(2024, 1, 15, 12, 0, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Sentence:
    text: str
    due: date | None
    now: datetime = NOW
    time_zone: str = "UTC"

    @property
    def today(self) -> date:
        return self.now.astimezone(ZoneInfo(self.time_zone)).date()


def _sentences(lines: str) -> list[Sentence]:
    found = []
    for line in lines.strip().splitlines():
        due, text, *moment = (part.strip() for part in line.split("|"))
        day = None if due == "-" else date.fromisoformat(due)
        if moment:
            now, time_zone = moment[0].split()
            found.append(Sentence(text, day, datetime.fromisoformat(now), time_zone))
        else:
            found.append(Sentence(text, day))
    return found


HELD_BACK = _sentences("""
2024-01-16 | Drop the parcel off at the post office tomorrow
2024-01-16 | tomorrow morning: call the landlord about the boiler
2024-01-15 | Take the bins out tonight
2024-01-15 | Finish the quarterly slides today
2024-01-17 | Return the library books the day after tomorrow
2024-01-19 | Hand in the essay by Friday
2024-01-18 | Dentist on Thursday at 3pm
2024-01-20 | Wash the car on Saturday
2024-01-21 | Call grandma this Sunday
2024-01-17 | Pick up Tom from football practice next Wednesday
2024-01-16 | Submit the expense report before Tuesday noon
2024-01-20 | Clean out the garage this weekend
2024-01-22 | Renew the gym membership next week
2024-02-15 | Book the hotel for Lisbon next month
2024-01-31 | Pay the rent at the end of the month
2024-12-31 | Use up the remaining vacation days by the end of the year
2024-03-31 | File the sales tax before the end of the quarter
2024-01-19 | Send the offer to Mrs. Klein by the end of the week
2024-01-29 | Change the water filter in two weeks
2024-01-18 | Check the sourdough starter in 3 days
2024-04-15 | Rotate the tyres in three months
2025-01-15 | Renew the passport in a year
2024-01-25 | Follow up with the recruiter in 10 days
2024-01-22 | Mow the lawn in a week
2024-02-03 | Buy a present for Ana's birthday on February 3rd
2024-03-01 | Cancel the trial before 1 March
2024-05-05 | Order the cake for the party on May 5
2024-12-24 | Pick up the goose on December 24
2025-02-01 | Start the lease on Feb 1 2025
2024-06-30 | Submit the thesis by June 30, 2024
2024-02-14 | Reserve a table for 14 February
2024-01-20 | Pay the credit card on the 20th
2024-02-03 | Send the invoice by the 3rd
2024-01-28 | Water the neighbour's plants on the 28th of January
2024-02-10 | Ship the release on 2024-02-10
2024-03-05 | Deadline 2024-03-05: grant application
2024-01-25 | Dentist appointment 1/25/2024
2024-02-29 | Pay the insurance by 29/02/2024
2024-02-17 | Piano recital on 17.02.2024
- | Submit the form by 03/04/2024
2024-01-23 | Prepare the board meeting a week from tomorrow
2024-01-29 | Review the contract two weeks from now
2024-01-26 | Get the suit cleaned a week from Friday
2024-01-29 | Finish the pilot within two weeks
2024-02-29 | Close the books by the end of February
2024-02-29 | Deliver the report at the end of next month
2024-02-01 | Switch the energy provider at the beginning of next month
2024-01-18 | Review last week's numbers by Thursday
2024-01-19 | Prepare the slides for Friday's meeting
2024-01-19 | Send the weekly report by Fri
2024-01-16 | tmrw buy stamps
2024-01-15 | Answer the customer by EOD
2024-01-19 | Reconcile the accounts by EOW
2024-01-18 | Call the bank Thurs afternoon
- | Water the plants every Tuesday
- | Take the medicine every day at 8am
- | Team lunch each Friday
- | Yoga on Mondays and Wednesdays
- | Pay rent on the first of every month
- | Back up the laptop weekly
- | Stand-up on weekdays at 9:30
- | Every other Saturday clean the aquarium
- | Buy 12 eggs and 2 litres of milk
- | Read chapter 3 of the statistics book
- | Upgrade the server to version 2.1.3
- | Fix the bug in release 10.11.12
- | Call April and May about the carpool
- | March on with the garden fence
- | Ask August whether he still has the ladder
- | Watch Blade Runner 2049
- | Move the boxes to the 2nd floor
- | Run 10 km
- | Reply to the mail from yesterday
- | Write up the notes from last Friday's call
- | Learn Spanish someday
- | Call the plumber soon
- | Get the roof fixed when the weather is better
- | Buy half a pound of coffee, 1/2 decaf
- | Test the 24/7 support line
- | Fix the sink in room 312
- | Set up the printer for the May family
- | Sort the photos from 2019
2024-01-17 | Book the train tomorrow | 2024-01-15T23:30:00+00:00 Europe/Berlin
2024-01-15 | Book the train tomorrow | 2024-01-15T05:00:00+00:00 America/Los_Angeles
2024-01-16 | Finish the draft today | 2024-01-15T16:00:00+00:00 Asia/Tokyo
2024-01-19 | Send the draft on Friday | 2024-01-13T02:00:00+00:00 America/New_York
2024-02-29 | Pay the invoice at the end of the month | 2024-02-01T03:00:00+00:00 Europe/Paris
2024-12-31 | Close the year's books on the last day of the year | 2024-12-31T21:00:00+00:00 UTC
2024-01-18 | Feed the cat while the Millers are away, from today, and give the key back on Thursday
2024-01-20 | Grill with the neighbours Saturday evening if it stays dry
2024-02-12 | Start the course in four weeks
2024-04-30 | Send the tax papers to the adviser by April 30th at the latest
2024-01-17 | Wednesday 9:15 blood test, do not eat before
2024-01-19 | Ask Lin on Friday whether the order from Tuesday arrived
2024-03-08 | Flowers for Women's Day (8 March)
- | Write the story of Friday the cat
- | Rehearse act 2 scene 3
- | Order 3 may bells for the balcony
- | Check the tyre pressure once a month
2024-01-16 | Finish by tomorrow, 5 pm sharp
""")

TUNED = _sentences("""
2024-01-16 | Buy milk tomorrow
2024-01-16 | Tomorrow I have to call the tax office
2024-01-16 | Pick up the cake tomorrow at 4pm
2024-01-16 | Please remind me to send the invoice tomorrow
2024-01-16 | Prepare tomorrow's agenda
2024-01-15 | Reply to Sam today
2024-01-15 | Walk the dog this evening
2024-01-15 | Submit the timesheet by end of day
2024-01-15 | Get the parcel from the neighbour this afternoon
2024-01-15 | Call the school by the end of the day
2024-01-15 | Close the ticket before COB
2024-01-17 | Take out the glass the day after tomorrow
2024-01-17 | Day after tomorrow: fetch the bike
2024-01-19 | Submit the report next Friday
2024-01-19 | Finish the report by Friday
2024-01-19 | Pay the plumber on friday
2024-01-19 | FRIDAY: deploy the site
2024-01-19 | Send Maria the photos this Friday
2024-01-19 | Need the numbers no later than Friday
2024-01-19 | Contract due Friday
2024-01-19 | Book review, due on Friday at 17:00
2024-01-18 | Meet the architect this coming Thursday
2024-01-18 | Lunch with Omar Thursday
2024-01-16 | Get a haircut on Tuesday
2024-01-16 | Tue 10:00 dentist
2024-01-17 | Team meeting on Wed
2024-01-18 | Parent evening on Thu
2024-01-20 | Fix the fence on Sat
2024-01-21 | Roast chicken on Sun
2024-01-22 | Call the clinic next Monday
2024-01-22 | Hand in the homework by Monday
2024-01-22 | Drop off the forms on Monday
2024-01-20 | Bake bread this weekend
2024-01-20 | Paint the hallway at the weekend
2024-01-20 | Plan the hike over the weekend
2024-01-21 | Do the laundry by the end of the weekend
2024-01-22 | Talk to HR next week
2024-01-22 | Start the new diet next week
2024-02-15 | Pay the car insurance next month
2024-02-15 | Visit the dentist next month
2025-01-15 | Renew the domain next year
2024-01-31 | Submit the budget by the end of the month
2024-01-31 | Cancel the subscription before the end of this month
2024-01-31 | Invoices out by EOM
2024-01-31 | Book flights by month's end
2024-01-31 | Pay the nanny on the last day of the month
2024-12-31 | Finish the attic by end of year
2024-12-31 | Donate before the year ends, by the end of this year
2024-03-31 | Review the goals at the end of the quarter
2024-03-31 | Hire two engineers by the end of this quarter
2024-01-19 | Clean up the backlog by end of week
2024-01-19 | Write to the city council at the end of this week
2024-01-26 | Ship the prototype by the end of next week
2024-02-29 | Archive the files by end of next month
2024-03-31 | Finish the garden plan by the end of March
2024-01-31 | Report the hours by end of January
2024-02-01 | Change the bed linen at the start of next month
2024-02-01 | Order filters early next month, on the first of February
2024-01-17 | Check on the patient in two days
2024-01-16 | Move the laundry in a day
2024-01-29 | Bring the car back in 2 weeks
2024-01-29 | Check the seedlings in a fortnight
2024-02-05 | See the physio in three weeks
2024-07-15 | Replace the smoke alarm batteries in six months
2024-02-15 | Get the second shot in a month
2026-01-15 | Renew the certificate in 2 years
2024-02-14 | Return the deposit in 30 days
2024-01-17 | Answer the letter in a couple of days
2024-01-18 | Return the jacket within 3 days
2024-01-22 | Object to the decision within a week
2024-02-14 | Pay the fine within 30 days
2024-01-18 | Follow up with the client 3 days from now
2024-01-22 | Collect the watch a week from today
2024-01-17 | Order the ink two days from now
2024-01-19 | Call the roofer in the next 4 days
2024-02-03 | Anna's wedding gift by Feb 3
2024-02-03 | Send the RSVP by 3 February
2024-02-03 | Fly to Oslo on the 3rd of February
2024-02-03 | Feb. 3: taxes
2024-02-03 | Send flowers on February the 3rd
2024-03-15 | Apply for the scholarship before March 15
2024-03-15 | Beware of the Ides, 15th March, and pack the bags
2024-04-01 | Prank Joe on April 1st
2024-05-02 | Register the kids by May 2
2024-05-31 | File the return by 31 May
2024-06-21 | Midsummer party on June 21st
2024-07-04 | Buy sausages for July 4th
2024-08-09 | Book the ferry for August 9
2024-09-30 | Hand over the flat on Sept 30
2024-10-31 | Carve the pumpkin by October 31
2024-11-28 | Order the turkey before Nov 28
2024-12-06 | Fill the boots on 6 Dec
2025-01-10 | Renew the visa by January 10
2025-01-03 | Ski rental pick-up on 3 January
2025-03-01 | Start the job on March 1, 2025
2025-03-01 | Move to Porto 1 March 2025
2026-12-31 | Passport expires December 31 2026, renew it
2024-02-01 | Pay rent on February 1
2024-01-20 | Pay the credit card bill by the 20th
2024-01-31 | Send the timesheet on the 31st
2024-02-05 | Meet Lou on the 5th
2024-02-01 | Send the rent before the 1st
2024-02-02 | Pay the gardener by the 2nd, please
2024-01-18 | Wash the curtains on the 18th at noon
2024-02-01 | Transfer the money on the first
2024-01-30 | Report due 2024-01-30
2024-01-30 | 2024-01-30 hand over the keys
2024-11-05 | Vote on 2024-11-05
2024-02-20 | Release planned for 2024/02/20
2024-01-25 | Dentist on 25/01/2024
2024-01-25 | Dentist on 01/25/2024
2024-02-28 | Concert 28.2.2024
2024-01-28 | Brunch on 28.01.24
2024-02-22 | Visa appointment on 22-02-2024
2024-01-20 | Hand in the form by 1/20
2024-02-13 | Carnival on 13/2
- | Send the parcel on 05/06/2024
- | Pay by 3/4
- | Bring 3/4 of the cake to the office
- | Finish 1/20 of the puzzle
2024-01-18 | Review yesterday's notes by Thursday
2024-01-20 | Send the photos from last weekend to Ida on Saturday
2024-01-18 | Finish the daily log template by Thursday
2024-01-19 | Prepare the monthly numbers for Friday
2024-01-15 | Buy concert tickets today for the show on Saturday
2024-01-16 | Order the gift tomorrow for the party on January 27
2024-01-18 | Book the room for March 3 by Thursday
2024-01-17 | Finish the poster for the fair on Saturday by Wednesday
- | Move the meeting from Tuesday to Thursday
- | Choose between Tuesday and Thursday for the visit
- | Call Ben on Tuesday or Wednesday
- | every Monday at 9am team call
- | Take out the bins every Thursday
- | Every Friday: send the report
- | Call grandpa each Sunday
- | Swim every second Tuesday
- | Pay the cleaner every two weeks
- | Gym on Tuesdays and Thursdays
- | Piano lesson Wednesdays at 5
- | Family dinner on Sundays
- | Vitamins daily
- | Check the pool chlorine twice a week
- | Meditate in the morning on weekdays
- | Pay the credit card on the 15th of each month
- | Review the goals on the last Friday of every month
- | Renew the insurance every year on March 1
- | Buy 12 eggs
- | Buy 2 kg of flour and 3 onions
- | Chapter 3 homework
- | Read pages 10-12 of the manual
- | Install version 2.1.3 on the server
- | Update Python to 3.12.1
- | Call 555-0123 about the couch
- | Replace the iPhone 12 screen
- | Pay 15 euros back to Kim
- | Meet at gate 24
- | Carry the desk to the 3rd floor
- | Print the 1st draft
- | Put the tent on the 2nd shelf
- | Ring the doctor on the 2nd floor
- | March 10 miles with the scouts
- | Invite June and August to the barbecue
- | Ask May for the recipe
- | You may call Jan about it
- | Marching band practice sheets: sort them
- | Sun cream and hats for the kids
- | Buy a sun hat and a sat nav
- | Apply for the second job
- | Watch 2001: A Space Odyssey
- | Order the 2025 calendar
- | Read 1984 by Orwell
- | Figure out Friday's bug from last week
- | Answer the complaint from Tuesday
- | Review what we decided last month
- | Thank Eva for yesterday
- | Fill in the form from 2024-01-02
- | Go through the minutes of January 8
- | Clean the oven soon
- | Learn the guitar one day
- | Call the bank as soon as possible
- | Fix the shelf at some point
- | Book a doctor's appointment in the next few days
- | Repaint the door sometime next summer
- | Listen to Blue Monday
- | Watch Freaky Friday with the kids
- | Buy the Black Friday TV
- | Wash the Sunday dress
- | Plan a holiday in March
- | Take the 5th avenue exit and fetch Ella
2024-01-16 | Send it today | 2024-01-15T23:05:00+00:00 Europe/Madrid
2024-01-17 | Send it tomorrow | 2024-01-15T18:45:00+00:00 Asia/Kolkata
2024-01-14 | Water the garden today | 2024-01-15T07:59:00+00:00 America/Los_Angeles
2024-01-15 | Water the garden today | 2024-01-15T08:01:00+00:00 America/Los_Angeles
2024-02-29 | Book the hotel next month | 2024-01-31T12:00:00+00:00 UTC
2024-12-31 | Close the accounts at the end of the year | 2025-01-01T04:30:00+00:00 America/New_York
2025-01-01 | Visit the parents tomorrow | 2024-12-31T12:00:00+00:00 Australia/Sydney
2024-01-21 | Finish the puzzle by the end of the week | 2024-01-20T10:00:00+00:00 UTC
2024-01-28 | Finish the model by next Sunday | 2024-01-21T10:00:00+00:00 UTC
2024-03-11 | Change the clocks tomorrow | 2024-03-10T12:00:00+00:00 America/New_York
""")
