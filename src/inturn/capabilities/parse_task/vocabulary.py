"""The words by which the offline rules know a category, an urgency, and a text that says nothing."""

from __future__ import annotations

import re


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


WORDS_OF: dict[str, frozenset[str]] = {
    name: _set(words)
    for name, words in {
        "work": (
            "work report meeting slides presentation client customer project deadline boss manager team colleague "
            "contract proposal email mail deploy release bug server code review interview recruiter agenda budget "
            "board "
            "ticket sprint invoice quarterly backlog standup website slide spreadsheet hr timesheet offer "
            "conference pull "
            "request prototype database documentation memo onboarding kpi stakeholder grant"
        ),
        "health": (
            "doctor dentist gym workout run jog yoga medicine medication pill pills prescription vitamin physio "
            "therapy "
            "therapist hospital clinic checkup vaccine vaccination blood test optician diet sleep meditate exercise "
            "swim "
            "surgery health allergy appointment massage"
        ),
        "finance": (
            "pay bill rent tax taxes invoice bank budget insurance loan mortgage credit card salary savings "
            "transfer refund "
            "money pension stocks invest subscription fine fee account accounts deposit debt expense expenses"
        ),
        "errand": (
            "buy pick drop return post parcel package store shop groceries grocery supermarket milk bread eggs "
            "pharmacy "
            "collect fetch dry cleaning cleaner library mail order stamps car wash tyres petrol market bakery"
        ),
        "personal": (
            "mom mum dad mother father grandma grandpa sister brother friend friends family birthday party wedding "
            "holiday "
            "vacation trip book read guitar piano garden home house kitchen clean laundry dog cat vet kids children "
            "hobby "
            "photos anniversary dinner neighbour neighbor movie concert call write letter present gift"
        ),
        "shopping": "buy order shop groceries grocery supermarket milk bread eggs store market present gift shoes",
        "home": "house home kitchen garden clean laundry lawn fix tap sink roof paint garage window bathroom plants",
        "family": "mom mum dad mother father grandma grandpa sister brother kids children son daughter wife husband",
        "study": "homework essay exam class course lecture thesis study chapter school university read learn book",
        "school": "homework essay exam class course lecture thesis study chapter school university teacher",
        "travel": "flight hotel train ticket tickets passport visa trip pack luggage airport travel ferry",
        "fitness": "gym workout run jog yoga swim exercise marathon bike training",
    }.items()
}
FALLBACK_CATEGORIES = ("personal", "general", "other", "misc", "inbox")

LOW = re.compile(
    r"\b(?:someday|some day|one day|whenever|no rush|no hurry|at some point|sometime|eventually|if there is time|"
    r"if i have time|when i have time|low[- ]priority|optional(?:ly)?|maybe|perhaps|can wait)\b",
    re.IGNORECASE,
)
CRITICAL = re.compile(
    r"\b(?:urgent(?:ly)?|asap|as soon as possible|emergency|immediately|right now|right away|at once|critical|"
    r"life[- ]threatening)\b|!!!",
    re.IGNORECASE,
)
HIGH = re.compile(
    r"\b(?:important|must|crucial|essential|high[- ]priority|top priority|deadline|overdue|final notice|last chance|"
    r"without fail|at the latest|no later than)\b",
    re.IGNORECASE,
)

NOTHING_SAID = _set(
    "a an the and or to of on in at by for with about up out off over again also just only really very some "
    "any all my our your me us i we you it its this that these those them they he she him her something "
    "anything everything nothing stuff thing things whatever somebody someone one ones soon later sometime "
    "someday now today tonight tomorrow asap quickly fast eventually maybe perhaps please be is are was will "
    "would should could can may must need needs want there here so if when then as not don't do's etc bit lot "
    "more other same usual day days week month time"
)
"""Words that do not tell what there is to do."""

GENERIC = _set(
    "do fix make plan handle sort get check finish start work deal take care look update think go call buy "
    "send write prepare organize organise arrange complete continue begin try change move bring clean book set "
    "put see ask tell read help manage schedule remember remind review solve resolve improve test task todo "
    "tasks job jobs chores keep find discuss talk follow create build add remove delete use give come let "
    "important urgent new old good better best great big small"
)
"""Words that tell it only together with others: `fix` does not, `fix the tap` does."""

OBJECTS = {
    "": ["the laundry", "the tax return"],
    "do": ["the laundry", "the tax return"],
    "fix": ["the kitchen tap", "the login page"],
    "plan": ["the birthday party", "the trip to Rome"],
    "call": ["the dentist", "Anna"],
    "buy": ["milk and bread", "a present for Leo"],
    "send": ["the invoice", "the parcel"],
    "write": ["the quarterly report", "the letter"],
    "check": ["the tyre pressure", "the invoice"],
    "get": ["milk and bread", "the parcel"],
    "book": ["the dentist appointment", "the hotel"],
    "clean": ["the kitchen", "the garage"],
    "read": ["the contract", "the manual"],
    "finish": ["the quarterly report", "the slides"],
    "prepare": ["the slides", "the contract"],
}
"""What a suggestion puts in the place of `it` or `stuff`, by the verb."""
