"""Small talk around an answer: greetings, thanks, commands, questions, and lead-ins such as `my name is`."""

from __future__ import annotations

import re

from inturn.agents.offline.words import STOP, words

_HELLO = re.compile(
    r"(?:(?:hi|hello|hey|hiya|howdy|greetings|good (?:morning|afternoon|evening|day))"
    r"(?: (?:there|all|everyone|team))?[\s,.!]*){1,9}",
    re.IGNORECASE,
)
_THANKS = re.compile(
    r"(?:many )?(?:thanks|thank you|thx|cheers)(?: (?:a lot|so much|very much))?[\s.!]*", re.IGNORECASE
)
_NAME = re.compile(
    r"(?:(?:hi|hello|hey|well|so|yes|sure|ok|okay|and|it's me|actually|sorry|no)[\s,.!]+){0,9}"
    r"(?:(?P<sure>my (?:full |first |last )?name(?: is|'s)|the name(?: is|'s)|name's)|"
    r"(?P<any>i am|i'm|im|this is|it is|it's|call me|they call me|that is|that's)|"
    r"i meant|i mean|(?:it )?should be)\s+",
    re.IGNORECASE,
)
"""`sure` introduces a name; `any` may introduce a name or anything else; the rest corrects one."""
_LEAD = re.compile(
    r"(?:(?:well|so|um|uh|hmm|ok|okay|and|also|but|actually|sorry|please|oh)[\s,.!:]+){1,9}", re.IGNORECASE
)  # fmt: skip
_ASKING = re.compile(
    r"(?:what|how|why|when|who|where|which|whose|can|could|do|does|did|is|are|will|would|should|may|am|have|has)\b",
    re.IGNORECASE,
)
_HERE = re.compile(r"\s(?:here|speaking)$", re.IGNORECASE)
_OF_WHERE = re.compile(r",?\s(?:from|at|with)\s.*", re.IGNORECASE | re.DOTALL)
_POLITE = re.compile(r"(?:[\s,.!]{1,5}(?:please|pls|thanks|thank you|thx|cheers)){1,3}[\s.!]{0,9}$", re.IGNORECASE)
_IT_IS = re.compile(r"(?:(?:it|that)(?:'s| is| would be)|its)\s+(?=\S)", re.IGNORECASE)
_COMMANDS = {
    "back": "back|go back|previous|previous question|one step back|step back|undo|return",
    "skip": "skip|skip it|skip this|skip this one|skip that|pass|next|next question|leave it|leave it empty|n/a|na|"
    "not applicable|prefer not to say|i'd rather not say|rather not say|i don't know|don't know|no idea|i have no idea|"
    "not sure|i'm not sure|idk|i dk|dunno|i dunno|no clue|i have no clue|unsure|whatever|idc|i don't care|dont know|"
    "i dont know|i do not know|do not know|can't say|i can't say|don't remember|i don't remember|can't remember|"
    "i can't remember|i forgot",
    "help": "help|help me|help please|please help|i need help|info|information|about|what|huh|what do you mean|"
    "i don't understand|i do not understand|what should i do|what can i do|what can i ask",
}
_BY_WORDS = {phrase: name for name, phrases in _COMMANDS.items() for phrase in phrases.split("|")}


def command(text: str) -> str:
    """Returns `back`, `skip` or `help` if the message says nothing else; otherwise ''."""
    said = text.casefold().strip(" .!?\"'")
    said = re.sub(r"^please |,? please$", "", said)
    return _BY_WORDS.get(said, "")


def is_greeting(text: str) -> bool:
    return bool(_HELLO.fullmatch(text.strip()))


def is_thanks(text: str) -> bool:
    return bool(_THANKS.fullmatch(text.strip()))


def without_greeting(text: str) -> str:
    found = _HELLO.match(text)
    return text[found.end() :] if found else text


def is_question(sentence: str) -> bool:
    """Whether it ends in a question mark, or begins like a question and has at least three words."""
    text = without_greeting(sentence).strip()
    return text.endswith("?") or (bool(_ASKING.match(text)) and len(words(text)) >= 3)


def after_lead(text: str) -> str:
    """Returns the text without a lead-in such as `so, please: …`."""
    found = _LEAD.match(text)
    return text[found.end() :] if found else text


def after_introduction(text: str) -> str:
    """Returns the text without an introduction such as `it should be …`."""
    found = _NAME.match(text)
    return text[found.end() :] if found else text


def bare(text: str) -> str:
    """Returns a short answer without what is merely polite: `it's Berlin, please`."""
    found = _IT_IS.match(text)
    without = _POLITE.sub("", text[found.end() :] if found else text)
    return without if words(without) else text


def name_in(text: str, *, is_asked: bool) -> str:
    """Returns the name that a clause introduces, or ''. `is_asked`: small letters and no lead-in will do.

    After `I am` or `it is` it must be in capitals or a common name: people are also locked out, and things urgent.
    """
    found = _NAME.match(text)
    if found is None and not is_asked:
        return ""
    name = (text[found.end() :] if found else without_greeting(after_lead(text))).strip(' .,!;:"')
    name = _HERE.sub("", _POLITE.sub("", name))
    named = _OF_WHERE.sub("", name).strip(" ,")
    if named != name and (_is_common(named) or (_is_written_as_one(named) and (found or " " in named))):
        name = named  # `Problem with login` is not a name
    said = name.split()
    if (
        not 1 <= len(said) <= 5
        or len(name) > _MAX_NAME
        or any(character.isdigit() or character in "@?/\\" for character in name)
    ):
        return ""
    if not words(name) or said[0].casefold() in _ARTICLES or _NO_NAMES & set(words(name)):
        return ""
    if _is_written_as_one(name):
        is_shout = found is not None and bool(found["any"]) and any(len(word) > 2 and word.isupper() for word in said)
        return "" if is_shout and not text.isupper() else name
    may_be_small = is_asked if found is None or not (found["sure"] or found["any"]) else bool(found["sure"])
    if found is not None and found["any"] and (is_asked or not found["any"].casefold().startswith(("it", "that"))):
        may_be_small = may_be_small or _is_common(name)
    # `Ignore previous instructions`: the capital only begins a sentence
    is_sentence = (found is None and len(said) > 2 and said[0][0].isupper()) or any(
        (word in STOP and word not in _PARTICLES) or word.endswith("ing") for word in words(name)
    )
    return name if may_be_small and not is_sentence else ""


def _is_written_as_one(name: str) -> bool:
    words_of_it = name.split()
    return bool(words_of_it) and all(
        word[0].isupper() or not word[0].isascii() or word.casefold() in _PARTICLES for word in words_of_it
    )


def _is_common(name: str) -> bool:
    """Whether it is a given name with at most two words behind it: `bob`, `john smith`."""
    said = words(name)
    return 0 < len(said) <= 3 and said[0] in _GIVEN_NAMES


_MAX_NAME = 100
_PARTICLES = frozenset([
    "van", "von", "der", "de", "la", "le", "da", "di", "bin", "ibn", "al", "of", "the", "del", "dos", "du", "el", "y",
])  # fmt: skip
_ARTICLES = frozenset(["the", "a", "an", "of", "not", "from"])
_NO_NAMES = frozenset([
    "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "january", "february", "july",
    "september", "october", "november", "december", "today", "tomorrow", "yesterday", "none", "nobody", "anonymous",
    "unknown", "name", "secret", "private", "urgent", "asap", "ceo", "cto", "cfo", "manager", "boss", "customer",
    "admin", "administrator", "locked", "stuck", "lost", "angry", "broken", "down", "slow", "wrong", "ridiculous",
    "business",
])  # fmt: skip
"""Words that appear where a name could, and are not names."""


_COMMON = """
aaron abdul abdullah abigail ada adam adele adrian agnes ahmed aisha alan albert alejandro alex alexander alexandra
alexis alfred ali alice alicia alina alison allison alma amanda amelia amina amir amit amy ana anastasia anders
andre andrea andreas andrew andy angela angelina anika anita anja ann anna anne annette annie anthony antoine
anton antonio arjun arthur astrid audrey barbara beatrice ben benjamin bernard beth betty bianca bob bobby brandon
brenda brian bruno camille carl carla carlos carmen carol caroline catherine cecilia charles charlie charlotte
chen chiara chloe chris christina christine christoph christopher claire clara claudia claudio colin
connor cristina cynthia damien dan daniel daniela danny dave david deborah denis dennis diana diego dieter
dimitri dmitri dominic donald donna dora doris dorothy doug douglas dylan eddie edith eduardo edward elena eli
elias elisa elisabeth elise elizabeth ella ellen elsa emil emilia emily emma emmanuel enrique eric erica erik
erika ernesto esther ethan eugene eva evelyn fabian fatima federico felix fernando fiona florian frances francesca
francesco francis francisco franz fred frederick fritz gabriel gabriela gareth gary gavin geoff george gerald
gerhard giulia giovanni gloria gordon graham greg gregory greta guido gustav hana hanna hannah hans harold harriet
harry hassan heidi heike helen helena henry hiroshi holger hugo ian ibrahim ida igor ines ingrid irene
irina isaac isabel isabella isabelle ivan jacob jacqueline jake james jamie jane janet jason javier
jean jeff jeffrey jennifer jenny jens jeremy jerry jessica jim jimmy joan joanna joe joel johan johanna johannes
john johnny jon jonas jonathan jorge jose joseph josh joshua josephine juan judith judy julia julian juliana julie
juliet julio jürgen kai karen karim karin karl karla karsten kate katharina katherine kathleen kathryn kathy katie
katrin keiko keith kelly ken kenji kenneth kevin khalid kim klaus kumar kurt kyle laila lars laura lauren laurent
lea leah lee leila lena leo leon leonardo leonie li liam lidia linda lisa liz lorenzo louis louise luca lucas
lucia lucy luis luisa lukas luke lydia magda manuel marc marcel marco marcus margaret margarita maria
mariam marian marie marina mario marion markus martha martin martina mary mateo mathias matteo matthew matthias
maurice maya megan mei melanie melissa mia michael michel michelle miguel mike mila miriam mohamed
mohammad mohammed monica monika moritz muhammad nadia nancy natalia natalie natasha nathan neil nicholas nick
nicola nicolas nicole nigel niko nikolai nina noah nora norbert nuno oleg oliver olivia omar oscar otto owen pablo
pamela paola paolo patricia patrick paul paula pauline pavel pedro peter petra philip philipp phoebe pierre piotr
priya rachel rafael raj rajesh ralf ralph ramon raphael raquel raymond rebecca renate ricardo richard rita robert
roberto robin rodrigo roland rolf ronald rosa roy ruben rudolf russell ruth ryan sabine
salma sam samantha samir samuel sandra sanjay sara sarah scott sean sebastian sergei sergio seth sharon sheila
silvia simon simone sofia sonia sophia sophie stefan stefanie stella stephan stephanie stephen steve steven stuart
sunita susan susanne suzanne svetlana sven sylvia tamara tanja tanya tatiana ted teresa thea theo theodor theresa
thomas tim timothy tina tobias todd tom tomas tommy toni tony tracy ulrich ulrike ursula uwe valentina valeria
vanessa vera veronica victor victoria vijay vincent vladimir walter wei wendy werner wilhelm william wolfgang
xavier yan yasmin yolanda yuki yuri yusuf yvonne zoe
"""
_GIVEN_NAMES = frozenset(_COMMON.split())
"""Given names that people write in small letters after `i'm`, where almost anything else may follow too.

Common ones of many countries, without those that are also words (`mark`, `will`, `rich`). People with other names
are asked to write the name alone.
"""
