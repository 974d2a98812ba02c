"""Small talk around an answer: greetings, thanks, commands, questions, and lead-ins such as `my name is`."""

from __future__ import annotations

import re

from inturn.agents.offline.words import STOP, words

_HELLO = re.compile(
    r"(?:(?:hi+|hell+o+|he+y+a*|hi+ya+|howdy|greetings|good (?:mornin[g']?|afternoon|evening|day)|g'?day|yo|sup|"
    r"merry christmas|happy new year|hola+|ola|buen[oa]s (?:d[ií]as|tardes|noches)|buenas|qu[eé] tal|"
    r"bonjour|bonsoir|salut|hallo|guten (?:tag|morgen|abend)|moin|servus|ciao|buongiorno|"
    r"gr[uü]ezi|namaste|salaam|konnichiwa|merhaba|ni ?hao|ol[aá]|bo(?:m dia|a tarde|a noite)|buon ?giorno|buona ?sera|"
    r"hej|hejsan|ahoj|privet|dobr[yý] (?:den|wiecz[oó]r)|dzie[nń] dobry|"
    r"cze[sś][cć]|goede(?:morgen|middag|navond|ndag)|kalimera|annyeong|"
    r"xin ch[aà]o|kia ora|gr[uü](?:ss|ß) gott)\b"
    r"(?: (?:there|all|everyone|team|world|amig[oa]s?|folks|guys))?[\s,.!?]*){1,9}",
    re.IGNORECASE,
)
_THANKS = re.compile(
    r"(?:many )?(?:thanks|thank you|thx|cheers)(?: (?:a lot|so much|very much))?[\s.!]*|"
    r"(?:(?:muchas )?gracias|danke(?: sch(?:ö|oe)n| sehr)?|vielen dank|merci(?: beaucoup)?|grazie(?: mille)?|"
    r"(?:muito )?obrigad[oa]|arigat[oō]u?|spasibo|xie ?xie|tack(?: s[aå] mycket)?|takk|bedankt|dank (?:je|u)|kiitos|"
    r"shukran|dzi[eę]kuj[eę]|te[sş]ekk[uü]rler)[\s.!]*",
    re.IGNORECASE,
)
_NAME = re.compile(
    r"(?:(?:hi|hello|hey|hola|hallo|bonjour|ciao|well|so|yes|sure|ok|okay|and|it's me|actually|sorry|no|wait)[\s,.!]+)"
    r"{0,9}"
    r"(?:(?P<sure>my (?:full |first |last )?name(?: is|'s)|the name(?: is|'s)|name's)|"
    r"(?P<any>i am|i'm|im|this is|it is|it's|its|call me|they call me|that is|that's)|"
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
    "stop": "cancel|cancel it|cancel this|cancel that|stop|stop it|stop this|quit|exit|abort|never mind|nevermind|"
    "forget it|forget about it|i give up|start over|start again|restart|reset|begin again|bye|goodbye|good bye|"
    "see you|see ya|see you later|see you soon|end|the end|end chat|end this|end the chat|unsubscribe",
    "wait": "wait|wait a second|wait a minute|wait a moment|hold on|hang on|one moment|one second|one minute|"
    "just a moment|just a second|a moment|moment|hm|hmm|hmmm|um|uh|uhm|let me think|lemme think|let me check|"
    "sec|one sec",
}
_BY_WORDS = {phrase: name for name, phrases in _COMMANDS.items() for phrase in phrases.split("|")}


def command(text: str) -> str:
    """Returns `back`, `skip`, `help`, `stop` or `wait` if the message says nothing else; otherwise ''."""
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


def name_in(text: str, *, is_asked: bool, is_labelled: bool = False) -> str:
    """Returns the name that a clause introduces, or ''.

    `is_asked`: small letters and no lead-in will do. `is_labelled`: the words before it said that it is a name.

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
        or _CODE.search(name)
    ):
        return ""
    if not words(name) or said[0].casefold() in _ARTICLES or _NO_NAMES & set(words(name)):
        return ""
    is_sure = (is_labelled or (found is not None and bool(found["sure"]))) and _is_written_as_one(name)
    if not is_sure and _NO_NAMES_ALONE & set(words(name)) and all(map(_is_no_name, words(name))):
        return ""
    if _is_written_as_one(name):
        is_shout = found is not None and bool(found["any"]) and any(len(word) > 2 and word.isupper() for word in said)
        return "" if is_shout and not text.isupper() else name
    may_be_small = is_asked if found is None or not (found["sure"] or found["any"]) else bool(found["sure"])
    if found is not None and found["any"] and (is_asked or not found["any"].casefold().startswith(("it", "that"))):
        may_be_small = may_be_small or _is_common(name)
    # `Ignore previous instructions`: the capital only begins a sentence
    begins_one = found is None and len(said) > 1 and said[0][0].isupper() and (len(said) > 2 or not _is_common(name))
    is_sentence = begins_one or any(
        (word in STOP and word not in _PARTICLES) or word.endswith("ing") for word in words(name)
    )
    return name if may_be_small and not is_sentence else ""


def is_surely_name(name: str, *, is_introduced: bool) -> bool:
    """Whether it is a name also where nobody asked for one. `is_introduced`: one capital is enough (`it's Johnny`)."""
    if _is_common(name):
        return True
    return _is_written_as_one(name) and (is_introduced or " " in name)


def _is_written_as_one(name: str) -> bool:
    words_of_it = name.split()
    return bool(words_of_it) and all(
        word[0].isupper() or not word[0].isascii() or word.casefold() in _PARTICLES for word in words_of_it
    )


def _is_no_name(word: str) -> bool:
    return word in _NO_NAMES_ALONE or word in STOP


def _is_common(name: str) -> bool:
    """Whether it is a given name with at most two words behind it: `bob`, `john smith`."""
    said = words(name)
    return 0 < len(said) <= 3 and said[0] in _GIVEN_NAMES


_MAX_NAME = 100
_CODE = re.compile(r"[a-z]{2}\.[a-z]|[][{}<>=_]")
_PARTICLES = frozenset([
    "van", "von", "der", "de", "la", "le", "da", "di", "bin", "ibn", "al", "of", "the", "del", "dos", "du", "el", "y",
])  # fmt: skip
_ARTICLES = frozenset(["the", "a", "an", "of", "not", "from"])
_NO_NAMES = frozenset([
    "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "january", "february", "july",
    "september", "october", "november", "december", "today", "tomorrow", "yesterday", "none", "nobody", "anonymous",
    "unknown", "name", "secret", "private", "urgent", "asap", "ceo", "cto", "cfo", "manager", "boss", "customer",
    "admin", "administrator", "locked", "stuck", "lost", "angry", "broken", "down", "slow", "wrong", "ridiculous",
    "business", "human", "agent", "person", "operator", "bot", "robot", "test", "asdf", "qwerty", "foo", "lol", "haha",
    "great", "menu", "login", "password", "account", "problem", "problems", "issue", "issues", "error", "errors", "bug",
    "crash", "refund", "invoice", "billing", "order", "support", "service", "help", "cancel", "stop", "quit",
    "exit", "wait", "delete", "hola", "bonjour", "hallo", "soy", "suis", "ich", "app", "website", "internet", "gmail",
    "hotmail", "outlook", "yahoo", "sorry", "oops", "nothing", "something", "anything", "subscribe", "unsubscribe",
    "chat", "lemme", "think", "xyz", "abc", "shut", "fuck", "busy",
    # companies
    "inc", "incorporated", "ltd", "limited", "llc", "llp", "plc", "gmbh", "ag", "ug", "bv", "srl", "sarl", "pty",
    "corp", "corporation", "company", "holding", "holdings", "enterprises", "industries", "technologies",
    "solutions", "systems", "consulting", "ventures", "associates", "department", "ministry", "university",
    "team", "staff",
    # how names are introduced in other languages
    "llamo", "appelle", "heiße", "heisse", "chiamo", "chamo", "heter", "hedder",
    # programs
    "user", "username", "undefined", "nan", "object", "lorem", "ipsum", "firstname", "lastname", "placeholder",
    "dear", "ticket", "tickets", "motors",
])  # fmt: skip
"""Words that appear where a name could, and are not names."""
_ALONE = """
start started begin go continue proceed resume clear later now open close run submit send save enter logout register
signup signin list show status home main done finish finished ready repeat again retry reload refresh update upgrade
next download install search find settings options faq contact demo ping let's lets logoff undo redo confirm accept
decline agree ignore skip change edit exit try

null nil void true false string select drop insert print echo sudo root guest bar baz foobar example sample dummy todo
tbd google chatgpt copilot wifi

si sí oui ja jawohl nein non nee sim não nao evet hayir hai iie da nyet niet bitte por favor s'il vous plait plaît
prego adios adiós tschüss tschuss arrivederci sayonara au revoir auf wiedersehen hasta luego gracias danke merci
grazie obrigado obrigada shalom salam selam aloha tere domo arigato tusen takk hei oi hoi moi salve habari jambo vale
bueno bien gut bene claro perfecto

world sir madam ma'am mr mrs ms señor senor señora senora monsieur madame herr frau amigo amiga amigos friend friends
folks guys mate bro buddy dude everybody ladies gentlemen somebody someone everyone concern myself self

guess maybe perhaps sure fine good nice cool well right alright morning evening afternoon night day welcome bad first
last shoot cares nah yep yup yeah ha wow omg wtf damn huh new old ask hurry quick question questions talk speak call
phone
"""
_NO_NAMES_ALONE = frozenset(_ALONE.split())
"""Words that are no name where nothing else is said; with others they may be one: `Mark Start`. After `my name is` they
are taken in capitals.

Commands; words of programs; yes, no, please, thanks and good-bye in other languages; words of address; and what else
people say instead.
"""


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
