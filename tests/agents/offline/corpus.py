"""What people write when they correct themselves, change their mind, or say something that is no answer.

Each line is one message in the middle of the shipped support intake: everything before the question that was asked
last is known, as in `EVERYTHING`, with `name` and `product` as people first wrote them (`KNOWN`). Its outcome is what
may be stored: nothing (`{}`) means that the agent must not take anything, and asks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.agents.offline.talk import EVERYTHING, Talk

CONFIRM = "(confirm)"
KNOWN = {**EVERYTHING, "name": "Jon Smith"}


@dataclass(frozen=True)
class Line:
    asked: str
    said: str
    stored: dict[str, Any]


def score(lines: list[Line], stored: list[dict[str, Any]]) -> tuple[int, int, list[Line]]:
    """Returns how many were read right, how many were only asked about, and those that were read wrong."""
    right, asked, wrong = 0, 0, []
    for line, got in zip(lines, stored, strict=True):
        if got == line.stored:
            right += 1
        elif all(line.stored.get(name) == value for name, value in got.items()):
            asked += 1
        else:
            wrong.append(line)
    return right, asked, wrong


async def stored_for(line: Line) -> dict[str, Any]:
    """Returns what the agent stores for the line, without values that were there already."""
    names = list(KNOWN)
    known = KNOWN if line.asked == CONFIRM else {name: KNOWN[name] for name in names[: names.index(line.asked)]}
    last = names[-1] if line.asked == CONFIRM else names[max(0, names.index(line.asked) - 1)]
    talk = Talk(collected=dict(known), memory={"asked": line.asked, "last": last} if known else {"asked": line.asked})
    await talk.say(line.said)
    return {name: value for name, value in talk.value["data"].items() if known.get(name, None) != value}


def _lines(asked: str, *pairs: tuple[str, dict[str, Any]]) -> list[Line]:
    return [Line(asked, said, stored) for said, stored in pairs]


CORPUS = [
    # no answer at all, where a name was asked for
    *_lines(
        "name",
        ("cancel", {}), ("hola", {}), ("stop", {}), ("quit", {}), ("exit", {}), ("never mind", {}), ("nevermind", {}),
        ("start over", {}), ("restart", {}), ("bonjour", {}), ("hallo", {}), ("ciao", {}), ("buenos dias", {}),
        ("guten tag", {}), ("Hola!", {}), ("Cancel", {}), ("CANCEL", {}), ("abort", {}), ("forget it", {}),
        ("yo", {}), ("sup", {}), ("test", {}), ("testing", {}), ("asdf", {}), ("wait", {}), ("hold on", {}),
        ("one moment", {}), ("Wait a second", {}), ("why", {}), ("seriously?", {}), ("nope", {}), ("i forget", {}),
        ("none", {}), ("n/a", {}), ("anonymous please", {}), ("Good morning", {}), ("human", {}), ("agent please", {}),
        ("speak to a person", {}), ("bye", {}), ("goodbye", {}), ("lol", {}), ("great", {}), ("menu", {}),
        ("login problem", {}), ("refund", {}), ("hello?", {}), ("are you there", {}), ("delete my data", {}),
        ("John Smith", {"name": "John Smith"}), ("its john", {"name": "john"}),
        ("Jon... sorry, John", {"name": "John"}),
        ("Jon, I mean John", {"name": "John"}), ("it's John, not Jon", {"name": "John"}),
        ("hola, soy Maria", {}), ("Hola, I'm Maria", {"name": "Maria"}),
        ("hey its maria garcia", {"name": "maria garcia"}),
    ),
    # the name is corrected when the next thing was asked for
    *_lines(
        "email",
        ("no wait, I meant John Smith", {"name": "John Smith"}), ("its John, not Jon", {"name": "John Smith"}),
        ("it's John not Jon", {"name": "John Smith"}), ("not Jon, John", {"name": "John Smith"}),
        ("sorry, John Smith", {"name": "John Smith"}), ("no, it's John", {"name": "John"}),
        ("wait, it's John Smith", {"name": "John Smith"}), ("oops, I meant John", {"name": "John"}),
        ("actually my name is John", {"name": "John"}), ("John with an h", {}), ("I misspelled my name", {}),
        ("my name is wrong", {}), ("*John", {"name": "John"}), ("*John Smith", {"name": "John Smith"}),
        ("correction: John Smith", {"name": "John Smith"}), ("I mean John Smith", {"name": "John Smith"}),
        ("typo, it's John", {"name": "John"}), ("no no, John Smith", {"name": "John Smith"}),
        ("that should be John Smith", {"name": "John Smith"}), ("change my name to John Smith", {"name": "John Smith"}),
        ("no wait, I meant john", {"name": "john"}), ("hang on, my name's John", {"name": "John"}),
        ("Hmm no, call me Johnny", {"name": "Johnny"}), ("cancel", {}), ("wait", {}), ("no", {}), ("that's wrong", {}),
        ("ada@example.org, sorry, ada@example.com", {"email": "ada@example.com"}),
        ("ada@example.org no wait ada@example.com", {"email": "ada@example.com"}),
        ("ada@example.com not ada@example.org", {"email": "ada@example.com"}),
        ("it's not Jon, it's John, and my mail is ada@example.com", {"name": "John Smith", "email": "ada@example.com"}),
        ("I don't have one", {}), ("why do you need that", {}),
    ),
    # the address is corrected
    *_lines(
        "product",
        ("sorry, the email is ada@example.org", {"email": "ada@example.org"}),
        ("wait, ada@example.org", {"email": "ada@example.org"}),
        ("no wait I meant ada@example.org", {"email": "ada@example.org"}),
        ("*ada@example.org", {"email": "ada@example.org"}), ("it's .org not .com", {}),
        ("ada@example.org, not .com", {"email": "ada@example.org"}), ("my email is wrong", {}),
        ("use ada@example.org instead", {"email": "ada@example.org"}), ("never mind", {}),
        ("the app. no, the website", {"product": "Website"}), ("website, no wait, the API", {"product": "API"}),
        ("mobile... I mean desktop", {"product": "Desktop app"}),
        ("not the mobile one, the desktop one", {"product": "Desktop app"}),
        ("website or maybe the api, not sure", {}), ("none of these", {}), ("all of them", {}),
    ),
    # a choice is corrected
    *_lines(
        "category",
        ("no, the desktop one", {"product": "Desktop app"}), ("sorry, I meant the website", {"product": "Website"}),
        ("wait, desktop", {"product": "Desktop app"}), ("actually it's the API", {"product": "API"}),
        ("not mobile, desktop", {"product": "Desktop app"}), ("no wait, website", {"product": "Website"}),
        ("make that the desktop app", {"product": "Desktop app"}),
        ("I said mobile but it's the website", {"product": "Website"}),
        ("oops, wrong one, website", {"product": "Website"}), ("*desktop", {"product": "Desktop app"}),
        ("it's the desktop one, not the mobile one", {"product": "Desktop app"}),
        ("no, the other one", {}), ("that's not right", {}), ("no", {}), ("cancel", {}), ("wrong product", {}),
        ("billing, no, a crash", {"category": "Error or crash"}),
        ("not a crash, it's just slow", {"category": "Slow or unavailable"}),
        ("desktop, sorry. And it's about billing", {"product": "Desktop app", "category": "Billing"}),
    ),
    *_lines(
        "description",
        ("no, it's about billing", {"category": "Billing"}), ("sorry, I meant billing", {"category": "Billing"}),
        ("cancel", {}), ("stop", {}), ("hola", {}), ("wait", {}), ("never mind", {}),
        ("It crashes. No wait, it freezes.", {"description": "It crashes. No wait, it freezes."}),
    ),
    *_lines(
        "affected_users",
        ("sorry, I meant since Friday", {"since": "2026-11-13"}), ("no wait, 2 days ago", {"since": "2026-11-14"}),
        ("12, no, 15", {"affected_users": 15}), ("12... I mean 15", {"affected_users": 15}),
        ("15, not 12", {"affected_users": 15}), ("not 12 but 15", {"affected_users": 15}),
        ("cancel", {}), ("too many", {}), ("actually since 2026-11-10", {"since": "2026-11-10"}),
        ("no, only some people cannot work", {"impact": "Some people cannot work"}),
    ),
    *_lines(
        "workaround",
        ("sorry, 15 people", {"affected_users": 15}), ("no wait, I meant 15", {"affected_users": 15}),
        ("no, 15", {"affected_users": 15}), ("*15", {"affected_users": 15}), ("15, not 12", {"affected_users": 15}),
        ("yes, no wait, no", {"workaround": False}), ("no. I mean yes", {"workaround": True}), ("hmm", {}),
        ("wait", {}),
    ),
    *_lines(
        "consent",
        ("no wait, by e-mail", {"contact_by": "By e-mail"}), ("sorry, I meant chat", {"contact_by": "By chat"}),
        ("not by phone, by chat", {"contact_by": "By chat"}),
        ("actually, e-mail is better", {"contact_by": "By e-mail"}),
        ("cancel", {}), ("hold on", {}), ("why?", {}),
    ),
    # everything was shown, and is right or not
    *_lines(
        CONFIRM,
        ("no wait, I meant John Smith", {"name": "John Smith"}), ("it's John, not Jon", {"name": "John Smith"}),
        ("no, the desktop one", {"product": "Desktop app"}), ("not Jon Smith, John Smith", {"name": "John Smith"}),
        ("my name is John Smith", {"name": "John Smith"}), ("the name should be John Smith", {"name": "John Smith"}),
        ("almost: 15 people, not 12", {"affected_users": 15}), ("by chat, not by phone", {"contact_by": "By chat"}),
        ("cancel", {}), ("hola", {}), ("stop", {}), ("wait", {}), ("yes but the website", {"product": "Website"}),
        ("ada@example.org please", {"email": "ada@example.org"}),
        ("it started on Friday, not yesterday", {"since": "2026-11-13"}),
        ("start over", {}), ("everything is wrong", {}),
        ("nobody can work? no, it is only a nuisance", {"impact": "It is only a nuisance"}),
    ),
]  # fmt: skip

UNSEEN = [
    *_lines(
        "name",
        ("lemme think", {}), ("Grüezi", {}), ("hey there, Bob here", {"name": "Bob"}), ("none of your business", {}),
        ("Bobby. Sorry, Robert", {"name": "Robert"}), ("i'm robert, but everyone calls me bob", {"name": "robert"}),
        ("what's yours?", {}), ("shut up", {}), ("end chat", {}), ("unsubscribe", {}), ("no thanks", {}),
        ("Wrong chat, sorry", {}), ("buenas tardes", {}), ("my app crashes", {}), ("password reset", {}),
        ("Dr. Maria Garcia", {"name": "Dr. Maria Garcia"}), ("Anne-Marie O'Neill", {"name": "Anne-Marie O'Neill"}),
        ("not telling", {}), ("Cancel my subscription", {}), ("ok", {}), ("hello hello", {}), ("xyz", {}),
        ("Jon, no, John", {"name": "John"}),
    ),
    *_lines(
        "email",
        ("I spelled it wrong, John", {}), ("no, Smith is my last name", {}), ("sry john*", {}),
        ("its spelled John", {"name": "John"}), ("Actually John", {"name": "John"}),
        ("no, not Jon. John.", {"name": "John Smith"}), ("Smyth, not Smith", {"name": "Jon Smyth"}),
        ("ada@exmple.com sorry ada@example.com", {"email": "ada@example.com"}), ("gmail", {}), ("sorry, what?", {}),
        ("no I won't tell", {}), ("wait, why?", {}), ("oh sorry its Jonathan Smith", {"name": "Jonathan Smith"}),
    ),
    *_lines(
        "product",
        ("oops ada@example.net", {"email": "ada@example.net"}),
        ("my bad, it's ada@example.net", {"email": "ada@example.net"}),
        ("desktop? no, mobile", {"product": "Mobile app"}), ("not the api", {}),
        ("the website I guess, not the app", {"product": "Website"}), ("no idea", {}), ("stop asking", {}),
    ),
    *_lines(
        "category",
        ("wait no, the website", {"product": "Website"}), ("my mistake, desktop", {"product": "Desktop app"}),
        ("website*", {"product": "Website"}), ("I picked the wrong product", {}),
        ("I should have said API", {"product": "API"}),
        ("slow, or rather unavailable", {"category": "Slow or unavailable"}),
        ("it's not the app it's the website", {"product": "Website"}), ("it's neither", {}),
    ),
    *_lines(
        "description",
        ("sorry, the product is Website", {"product": "Website"}),
        ("It says no, wait and see.", {"description": "It says no, wait and see."}),
        ("Not the login but the payment fails.", {"description": "Not the login but the payment fails."}),
        ("no it's billing", {"category": "Billing"}),
    ),
    *_lines(
        "since",
        ("last week, no, yesterday", {"since": "2026-11-15"}), ("Friday... Thursday actually", {}),
        ("not yesterday, today", {"since": "2026-11-16"}), ("no idea, sorry", {}),
    ),
    *_lines(
        "affected_users",
        ("five, sorry, six", {"affected_users": 6}), ("5 no 6", {}), ("not sure", {}),
        ("wait, it began today", {"since": "2026-11-16"}),
    ),
    *_lines(
        "workaround",
        ("make that 20", {"affected_users": 20}), ("no, 2 of us tried", {"workaround": False}),
        ("yes. sorry, no.", {"workaround": False}), ("not 12, 20", {"affected_users": 20}),
    ),
    *_lines(
        "contact_by",
        ("phone, no wait, chat", {"contact_by": "By chat"}), ("chat rather than phone", {"contact_by": "By chat"}),
        ("don't call me, mail", {"contact_by": "By e-mail"}),
    ),
    *_lines(
        "consent",
        ("oh wait, use chat", {"contact_by": "By chat"}), ("no", {"consent": False}),
        ("no, sorry", {"consent": False}), ("yes. no. wait", {}),
    ),
    *_lines(
        CONFIRM,
        ("15 people actually", {"affected_users": 15}), ("Jon should be John", {}),
        ("it's the website, not the mobile app", {"product": "Website"}),
        ("nope, by chat", {"contact_by": "By chat"}),
        ("wrong email, it's ada@example.net", {"email": "ada@example.net"}), ("hmm", {}), ("no, not yet", {}),
        ("I'm John", {"name": "John"}), ("sorry, it is only a nuisance", {"impact": "It is only a nuisance"}),
    ),
]  # fmt: skip
"""Written afterwards, and scored once before the agent learned from them: docs/agents.md tells that figure too."""

OPENINGS = [
    *_lines(
        "name",
        # commands
        ("start", {}), ("Start", {}), ("begin", {}), ("clear", {}), ("later", {}), ("go", {}), ("Continue", {}),
        ("proceed", {}), ("not now", {}), ("submit", {}), ("logout", {}), ("Home", {}), ("Let's go", {}),
        ("ready", {}),
        ("/start", {}), ("Login", {"category": "Cannot log in"}),
        # program words
        ("null", {}), ("undefined", {}), ("NaN", {}), ("None", {}), ("true", {}), ("[object Object]", {}),
        ("root", {}), ("user", {}), ("Lorem ipsum", {}), ("SELECT", {}),
        # greetings, thanks, yes and no in other languages
        ("gracias", {}), ("Muchas gracias", {}), ("Danke", {}), ("Danke schön", {}), ("merci", {}),
        ("Grazie mille", {}),
        ("obrigado", {}), ("si", {}), ("sí", {}), ("oui", {}), ("Ja", {}), ("nein", {}), ("Merhaba", {}),
        ("Ni hao", {}), ("Ola amigo", {}), ("Bom dia", {}), ("Hej", {}), ("Privet", {}), ("Adios", {}),
        ("por favor", {}),
        # words of address, and what else is nobody
        ("Hello World", {}), ("Dear Sir", {}), ("Dear Sir or Madam", {}), ("Hi friend", {}), ("Guess", {}),
        ("Guess who", {}), ("maybe", {}), ("Me llamo Ana", {}),
        # companies
        ("Acme Inc", {}), ("Acme Inc.", {}), ("Siemens AG", {}), ("Globex Corporation", {}), ("Müller GmbH", {}),
        ("Initech Solutions", {}),
        # people
        ("Will", {"name": "Will"}), ("Grace", {"name": "Grace"}), ("Joy", {"name": "Joy"}),
        ("Hope", {"name": "Hope"}),
        ("Mark Start", {"name": "Mark Start"}), ("Bill Gates", {"name": "Bill Gates"}),
        ("Christopher Null", {"name": "Christopher Null"}), ("Will Smith", {"name": "Will Smith"}),
        ("April May", {"name": "April May"}), ("Chase Grant", {"name": "Chase Grant"}),
        ("Ja Rule", {"name": "Ja Rule"}),
        ("Shalom Cohen", {"name": "Shalom Cohen"}), ("Sir Elton John", {"name": "Sir Elton John"}),
        ("My name is Guess", {"name": "Guess"}), ("my name is Si", {"name": "Si"}),
        ("Merhaba, I'm Ali", {"name": "Ali"}),
        ("Hej, Anna here", {"name": "Anna"}), ("Grazia Merci", {"name": "Grazia Merci"}),
        ("Ada Danke", {"name": "Ada Danke"}),
        ("Joy Guest", {"name": "Joy Guest"}), ("Summer Clear", {"name": "Summer Clear"}),
        ("Li Na", {"name": "Li Na"}),
        ("Rose", {"name": "Rose"}), ("Hello, Faith", {"name": "Faith"}), ("João da Silva", {"name": "João da Silva"}),
        ("Sunny Go", {"name": "Sunny Go"}), ("Christian", {"name": "Christian"}),
        ("Early Later", {"name": "Early Later"}),
        ("Dolores", {"name": "Dolores"}), ("Hi, Max Home", {"name": "Max Home"}),
        ("Ben World", {"name": "Ben World"}),
        # written last
        ("Open ticket", {}), ("let me in", {}), ("hit me", {}), ("Shoot", {}), ("your turn", {}), ("Servus", {}),
        ("Dobry den", {}), ("Tere", {}), ("domo arigato", {}), ("Tusen takk", {}), ("no gracias", {}),
        ("oui oui", {}), ("Nein danke", {}), ("HTTP 500", {}), ("console.log", {}), ("Microsoft Ltd.", {}),
        ("Tesla Motors", {}), ("The Boeing Company", {}), ("To whom it may concern", {}), ("Hey bro", {}),
        ("Customer Service", {}), ("First Last", {}), ("Dear Anna", {}), ("hi hi", {}),
        ("Faith Hill", {"name": "Faith Hill"}), ("Norah Jones", {"name": "Norah Jones"}), ("Rich", {"name": "Rich"}),
        ("Sunday Oliseh", {"name": "Sunday Oliseh"}), ("Mercy", {"name": "Mercy"}),
        ("Doris Day", {"name": "Doris Day"}), ("Chance the Rapper", {"name": "Chance the Rapper"}),
        ("guten Tag, Klaus Weber", {"name": "Klaus Weber"}), ("Van Morrison", {"name": "Van Morrison"}),
        ("Nguyen Thi Hai", {"name": "Nguyen Thi Hai"}), ("Sam Next", {"name": "Sam Next"}), ("hello, i am grace", {}),
        # stretched, clipped and rude: here because many of them were taken for names
        ("Heyy", {}), ("heyyy", {}), ("heya", {}), ("Hiii", {}), ("Hellooo", {}), ("G'day", {}), ("Holaaa", {}),
        ("hola buenas", {}), ("hola que tal", {}), ("good mornin", {}), ("Merry Christmas", {}),
        ("See You Later", {}), ("Shut Up", {}), ("Fuck Off", {}), ("I Am Busy", {}),
        ("Heyy, Anna here", {"name": "Anna"}), ("Hiii I'm Bob", {"name": "Bob"}),
        ("G'day, Max Home", {"name": "Max Home"}), ("Heya Grace Hill", {"name": "Grace Hill"}),
        ("Merry", {"name": "Merry"}), ("Hina", {"name": "Hina"}),
        ("Heyes", {"name": "Heyes"}), ("Yoo Jin", {"name": "Yoo Jin"}),
    ),
]  # fmt: skip
"""What people open with. All but the last group were scored before the agent learned from them, too."""
