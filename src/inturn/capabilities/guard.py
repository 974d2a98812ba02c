"""Refuses texts that try to take the prompt over, by patterns in families, and tells the sender nothing.

A filter, and no more: what it does not know passes. That user text stands in the prompt as data does the rest. Every
pattern takes time in proportion to the text: repetitions are bounded, and words are parted by exactly one blank.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from inturn import metrics
from inturn.capabilities.disguise import decoded, plain, readings, squashed, words
from inturn.errors import InputRefused

Family = Literal[
    "instruction_override",
    "prompt_extraction",
    "output_override",
    "format_manipulation",
    "role_play",
    "encoded_payload",
]

_GAP = r"(?:\S{1,40} )"
_DROP = (
    r"(?:ignor(?:e|ing)|disregard(?:ing)?|neglect|forget|skip|override|overrule|bypass|circumvent|discard|drop|dismiss|"
    r"erase|delete|reset|abandon|violate|disobey)"
)
_FILL = r"(?:(?:all|any|every|each|of|the|these|those|my|other|please|absolutely) ){0,4}"
_KIND = (
    r"(?:(?:previous|prior|earlier|preceding|former|above|system|safety|initial|original|own|current|hidden|"
    r"internal|secret|existing|developer|full|entire|core|base|old|real|actual|exact) ){0,3}"
)
_EARLIER = r"(?:previous|prior|earlier|preceding|former|above|foregoing|system|initial|original|developer)"
_RULES = (
    r"(?:instructions?|directions|directives?|prompts?|rules|guidelines?|commands?|orders|constraints|restrictions|"
    r"programming|training|polic(?:y|ies)|guardrails|filters?|safeguards|(?:system )?messages?)"
)
_SOMEONES = (
    r"(?! (?:from|of|by|about|to|for|in|on) (?:the|my|our|his|her|their|dr|mr|mrs|ms) "
    r"(?!system|developer|model|ai|prompt|assistant|conversation|chat|user|rest))"
)
"""`the previous instructions of the dentist` are not ours."""
_TO_SOMEONE = r"(?! (?:to|for|from) (?!this|that|me|us|any|every|all|each|the (?:user|prompt|question)))"
"""`your reply to Anna` is not the model's."""
_ELSEWHERE = r"(?! (?:on|in|for|of) (?!this|your|chat|here|the (?:chat|conversation|model|ai)))"
"""`developer mode on my phone` is not the model's."""
_GIVEN = (
    r"(?:that )?(?:you (?:were|have|had|got|received|are|must|ve)|given to you|above|before this|at the top|up there)"
)
_TELL = (
    r"(?:show|print|reveal|repeat|output|display|give|tell|leak|expose|dump|list|write|copy|put|include|paste|share|"
    r"recite|summari[sz]e|translate|encode|disclose|return|provide|echo|spell|quote|embed|append|insert|"
    r"(?:reply|respond|answer) with)"
)
_YOUR_PROMPT = (
    rf"your {_KIND}(?:prompts?|instructions?|rules|guidelines|directives|system message|configuration|programming)"
)
_A_MACHINE = (
    r"(?:ai|dan|chat ?bot|bot|language model|llm|hacker|evil|unrestricted|unfiltered|uncensored|jailbroken|"
    r"assistant(?! (?:manager|coach|director|professor|teacher)))"
)
_NO_RULES = (
    r"(?:no|without|without any|zero) (?:rules|restrictions|limits|limitations|guidelines|filters?|content filters?|"
    r"morals|ethics|boundaries)"
)
_FIELD = r"(?:title|category|priority|score|reason|due date|level)"
_MODE = r"(?:developer|dev|god|jailbreak|admin|sudo|dan|unrestricted|unfiltered|evil)"

IN_WORDS: dict[Family, list[str]] = {
    "instruction_override": [
        rf" {_DROP} {_FILL}(?:your {_KIND}|{_EARLIER} {_KIND}){_RULES}(?= ){_SOMEONES}",
        rf" {_DROP} {_FILL}(?:{_RULES}|safety rules)(?: and {_RULES})? {_GIVEN} ",
        rf" {_DROP} all (?:of )?(?:the )?(?:instructions|prompts|guidelines)(?= ){_SOMEONES}",
        (
            rf" (?:ignore|disregard|forget) (?:everything|all) {_GAP}{{0,3}}(?:above|before|previously|told|prior to "
            rf"this) "
        ),
        (
            r" (?:ignore|disregard|forget) (?:all |everything )?(?:what |that )?you (?:were|have been|are|ve been) "
            r"(?:told|given|instructed|taught|programmed) "
        ),
        (
            r" (?:everything|all of that|anything) (?:above|before this|before) (?:is|was|were) (?:just |only )?(?:a "
            r"test|wrong|fake|void) "
        ),
        (
            rf" (?:do not|dont|must not|will not|wont|never|stop|no longer|not) (?:follow|obey|heed|listen to|"
            rf"adhere to|comply with)(?:ing)? {_FILL}(?:your {_KIND}|{_EARLIER} {_KIND}){_RULES}(?= ){_SOMEONES}"
        ),
        rf" (?:do not|dont|must not|never|stop) (?:follow|obey|heed)(?:ing)? {_FILL}{_RULES} {_GIVEN} ",
        r" (?:obeying|following) your (?:guidelines|rules|instructions) ",
        r" (?:ignore|disregard|forget) (?:all (?:of )?)?the above (?:and|then) ",
        rf" your {_KIND}(?:instructions|rules|guidelines|prompts?|directives) (?:no longer|do not|dont) apply ",
        (
            rf"(?<! that the)(?<! if the) (?:your {_KIND}|(?:all )?(?:previous|prior|earlier) )"
            rf"(?:instructions|rules|guidelines|prompts?|"
            rf"directives) "
            r"(?:have|has|are|were|is) (?:(?:now|been|hereby|all) ){0,3}(?:changed|void|cancell?ed|updated|replaced|"
            r"obsolete|invalid|revoked|suspended|lifted|deleted) "
        ),
        r" your new (?:system )?(?:instructions?|directives?|prompt|guidelines|rules) ",
        r" new system (?:instructions?|prompt|rules|message) ",
        (
            r" (?:instructions|prompt|rules) (?:above|before this) (?:is|are|was|were) (?:wrong|fake|void|invalid|"
            r"outdated|a test) "
        ),
        (
            r" (?:vergiss|vergessen sie|ignoriere?|ignorieren sie|missachte) (?:(?:alle|deine|die|samtliche|bisherigen|"
            r"vorherigen|obigen|vorangegangenen|vorigen) ){1,4}(?:anweisungen|instruktionen|regeln|vorgaben|befehle) "
        ),
        (
            r" (?:ignore[rz]?|oublie[rz]?) (?:(?:toutes|tous|les|tes|vos|ces) ){1,3}(?:instructions|consignes|regles|"
            r"directives) "
        ),
        (
            r" (?:ignora|ignore|ignorar|olvida|olvide|olvidar) (?:(?:todas|todos|las|los|tus|sus) "
            r"){1,3}(?:instrucciones|reglas|indicaciones|ordenes) "
        ),
        r" (?:ignora|dimentica) (?:(?:tutte|le|tue) ){1,3}(?:istruzioni|regole) ",
        r" (?:ignore|ignora|esqueca) (?:(?:todas|as|suas|tuas) ){1,3}(?:instrucoes|regras) ",
        r" (?:negeer|vergeet) (?:(?:alle|je|de|vorige|bovenstaande) ){1,3}(?:instructies|regels) ",
        (
            r" (?:игнорируи|игнорируите|забудь|забудьте) (?:(?:все|всё|твои|свои|предыдущие|прошлые) "
            r"){0,3}(?:инструкции|правила|указания) "
        ),
        r"(?:忽略|忘记|忘掉|无视|無視)\S{0,10}(?:指令|指示|规则|提示|命令)",
    ],
    "prompt_extraction": [
        (
            rf" {_TELL} (?:(?:me|us|out|all|of|back|now|then|exactly|again|to|the|text|contents?|full) "
            rf"){{0,4}}{_YOUR_PROMPT} "
        ),
        (
            r" (?:show|print|reveal|repeat|output|display|leak|expose|dump|copy|disclose|give me|tell me|include|put) "
            r"(?:\S{1,20} ){0,3}"
            r"(?:system prompt|developer prompt|hidden prompt|hidden instructions|initial prompt|secret instructions|"
            r"secret prompt)(?= )(?! (?:for|of) (?:the|our|my|a) )"
        ),
        rf" what(?:s| is| are| was| were| does| did) {_YOUR_PROMPT} ",
        r" what did the (?:developers?|system|admin) (?:tell|say to|give|instruct) you ",
        (
            rf" (?:{_TELL}|what|which) {_GAP}{{0,4}}(?:instructions|rules|prompt|orders|guidelines) (?:that )?you "
            r"(?:were|have (?:to|been|got|received|$)|(?:got|received)(?! from (?!the (?:developer|system)))|"
            r"are (?:following|given|bound|using|under|told)) ?"
        ),
        (
            r" (?:repeat|print|copy|output|echo|show|write|say|type) (?:(?:me|back|out) )?(?:everything|all|the "
            r"(?:text|words?|sentences?|"
            r"lines?|message|content)) (?:\S{1,20} ){0,2}(?:above|before this|preceding this|prior to this)(?= )"
            r"(?! (?:the|my|our|a|an|average|ground) (?!line|message|text))"
        ),
        (
            r" (?:zeige?|nenne|verrate|gib|sag)(?: mir)? deine?n? (?:system ?)?(?:prompt|anweisungen|instruktionen|"
            r"regeln) "
        ),
        r" wie laute[tn] deine? (?:system ?)?(?:prompt|anweisungen|instruktionen|regeln) ",
        r" (?:muestra|muestrame|dime|revela|ensename) tus? (?:prompt|instrucciones|reglas) ",
        r" (?:affiche|montre|montre moi|revele|donne moi) (?:ton|tes|vos|votre) (?:prompt|instructions|consignes) ",
    ],
    "output_override": [
        r" (?:respond|reply|answer) only (?:with(?! yes or no)|in(?! writing| person)|using|by) ",
        r" (?:respond|reply|answer) with (?:only|just|nothing but|exactly)(?! an? ) ",
        (
            r" (?:output|print|return|say|write) (?:only|just|exactly) (?:this|the (?:following|words?|text|phrase|"
            r"sentence|number|string)) "
        ),
        r" only (?:output|respond|reply|answer) (?:with|the (?:word|number|text|phrase)) ",
        (
            r" your (?:only |entire |next |final |whole )?(?:response|reply|answer|output) (?:must|should|shall|has to|"
            r"needs to) (?:always |only )?(?:be|start|begin|end|contain|include|have|say) "
        ),
        (
            r" (?:start|begin|end|finish|prefix) (?:your|every|each|all) (?:\S{1,20} )?(?:answers?|reply|replies|"
            rf"responses?|outputs?)(?= ){_TO_SOMEONE}"
        ),
        rf" always (?:respond|reply|answer) with | always (?:set|return|output) the {_FIELD} ",
        (
            rf" (?:no matter what|regardless of (?:what|the (?:input|text|task|user))|whatever) {_GAP}{{0,6}}"
            rf"(?:respond |reply with |output |(?:return|print) (?!the (?!words?|text|following|same|phrase|{_FIELD})|"
            r"my |our |all |it |them ))"
        ),
        (
            rf" (?:{_FIELD}|output|response) {_GAP}{{0,8}}(?:no matter what|regardless of what|regardless of the "
            rf"(?:input|text|user|task)|whatever i) "
        ),
        r" regardless of the (?:input|user input|prompt) ",
        rf" (?:say|print|output|respond|reply|answer) {_GAP}{{1,10}}(?:and |but )?nothing else ",
        (
            r" (?:do not|dont|never|instead of|rather than) pars(?:e|ing) (?:this|it|the (?:task|input|text|sentence|"
            r"message)|tell|write|give|say) "
        ),
        r" (?:do not|dont|never|instead of|rather than) creat(?:e|ing) (?:a|the|any) tasks? (?!force|list|group|board)",
        r" instead of (?:a|the|any) task ",
        rf" (?:return|set|output) the {_FIELD} (?:as|to) {_GAP}{{1,3}}(?:for|in|to) (?:every|each|all) ",
    ],
    "format_manipulation": [
        (
            r" (?:do not|dont|never|not) (?:return|answer|respond|reply|output|use|produce) (?:(?:in|with|as|any|"
            r"valid) ){0,2}json "
        ),
        r" (?:respond|reply|answer) (?:in|as|with) (?:yaml|xml|html|markdown|plain text|plain markdown|csv) ",
        (
            r" (?:ignore|escape|bypass|violate|break) (?:the|your|this) (?:json |output |response )?(?:schema|output "
            r"format|response format) "
        ),
        r" break out of (?:the |your )?(?:json|format|schema|string|quotes?|delimiters?) ",
        (
            r" add (?:a|an|the|another) (?:\S{1,20} )?(?:field|key|property) (?:\S{1,20} ){0,4}to (?:your|the) "
            r"(?:output|json|response|answer|reply) "
        ),
    ],
    "role_play": [
        rf" you(?: are|re) now (?:a |an |my |the )?(?:\S{{1,20}} ){{0,2}}{_A_MACHINE} ",
        (
            r" from now on you (?:are|will|must|shall|should) (?:be )?(?:a|an|my|act|behave|respond|answer|speak|obey|"
            r"ignore|only|always) "
        ),
        (
            r" you(?: are|re) (?:no longer|not) (?:a |an |the )?(?:\S{1,20} )?(?:assistant|ai|parser|language model|"
            r"chat ?bot|bot) "
        ),
        (
            rf" (?:act|behave|respond|speak|role ?play|answer|talk) (?:as|like) (?:a |an |my |the )?(?:\S{{1,20}} "
            rf"){{0,2}}{_A_MACHINE} "
        ),
        (
            rf" (?:act|behave|respond|speak) as (?:if|though) you (?:had|have|were|are) (?:{_NO_RULES}|free|"
            rf"{_A_MACHINE}|an? {_A_MACHINE}) "
        ),
        (
            rf" (?:pretend|imagine|suppose|assume)(?: that)? (?:you are|youre|to be|you have|you had|being) "
            rf"{_GAP}{{0,4}}(?:{_A_MACHINE}|{_NO_RULES}) "
        ),
        rf" (?:pretend|imagine) (?:that )?you have {_NO_RULES} ",
        r" pretend (?:you are|to be) my (?:\S{1,20} )?(?:grandmother|grandma|grandfather) who ",
        (
            rf" (?:enable|enter|activate|switch to|turn on|go into|start|engage) (?:\S{{1,20}} )?{_MODE} mode(?= )"
            rf"{_ELSEWHERE}"
        ),
        rf" {_MODE} mode (?:enabled|on(?! (?:the|my|our|his|her|their|an?) )|activated|engaged|active) ",
        (
            r" (?:remove|lift|disable|turn off|drop|freed from|free from|without) (?:(?:all|any|of) ){0,3}your "
            r"(?:\S{1,20} )?(?:restrictions|limits|limitations|filters?|rules|guidelines|safeguards) "
        ),
        rf" you have {_NO_RULES} ",
        r" do anything now ",
        r" (?:you are|youre|act as|become|you will be) (?:now )?dan (?!s )",
        r" simulate (?:a|an|being) (?:\S{1,20} ){0,2}(?:ai|chat ?bot|language model) ",
        rf" lets (?:role ?play|play a game) {_GAP}{{0,4}}you (?:are an? |have no |can say )",
        r" du bist (?:jetzt|nun|ab jetzt) (?:ein|eine|mein) ",
        r" (?:eres ahora|ahora eres) un | tu es maintenant un",
    ],
    "encoded_payload": [
        (
            rf" (?:base ?64|rot ?13|hex|hexadecimal|binary|morse|caesar|cipher|encoded) {_GAP}{{0,6}}(?:follow|execute|"
            rf"obey|do what|comply|carry out|as your instruction)"
        ),
        (
            rf" (?:execute|run|follow|obey|perform) {_GAP}{{0,3}}(?:base ?64|rot ?13|hex encoded|morse|caesar|encoded) "
            r"(?:\S{1,20} )?(?:string|text|message|commands?|instructions?|payload|code|below) "
            r"(?!puzzle|quiz|game|tests?)"
        ),
    ],
}
"""Searched in `words`: lower case, one blank around each word, nothing else."""

IN_MARKS: dict[Family, list[str]] = {
    "instruction_override": [r"(?:^|[.;!?\n=-])\s{0,3}new (?:system )?(?:instructions?|directives?|prompt):"],
    "output_override": [
        r"\balways (?:answer|say|respond|reply|return)(?: with)? [\"'“‘]",  # noqa: RUF001
        rf"\b{_FIELD} (?:must|should|shall) (?:always )?be [\"'“‘]",  # noqa: RUF001
    ],
    "format_manipulation": [
        r"</\s?(?:system|user|assistant|user_text|user_input|instructions?|prompt|input|task|context|human|sys)\s?>",
        r"<\s?(?:system|assistant|user_text|user_input|instructions?|prompt|context|human|sys)\s?/?>",
        r"<\|[a-z_]{2,20}\|>|\[/?inst\]|<<\s?/?sys\s?>>",
        r"#{2,6}\s?(?:system|instructions?|assistant|user|human|prompt|response)\b",
        r"[.;!?)\]>\n-]\s{0,3}(?:system|assistant|developer)\s?:",
        r"^\s{0,3}system\s?:\s?(?:you|new|ignore|disregard|reveal|obey|the user|from now|forget)\b",
        r"^\s{0,3}assistant\s?:\s?(?:sure|here|of course|yes|okay|i)\b",
        r"[\"']role[\"']\s?:\s?[\"'](?:system|assistant|developer|user|tool)\b",
        r"\"\s?\}{1,4}\s?,?\s?[{\"]",
        r"\{\s?\"(?:task|vague|title|category)\"\s?:(?!\s?(?:null|true|false|[0-9]{1,9})\s?\})",
        r"```\s?(?:system|json|assistant|user|prompt)\b",
        (
            r"[-=*#]{2,9}\s{0,2}(?:end|begin|start) (?:of )?(?:the )?(?:user|system|prompt|input|instructions?|text|"
            r"data|message|task)\b"
        ),
    ],
}
"""Searched in the plain text, where its marks matter."""

SQUASHED: dict[Family, list[str]] = {
    "instruction_override": [
        (
            r"(?:ignore|disregard|forget|override|bypass)(?:all|any|the|your|of|my){0,3}(?:previous|prior|above|"
            r"earlier|system|your)[a-z]{0,12}?(?:instruction|rules|prompt|guideline)"
        ),
    ],
    "prompt_extraction": [
        (
            r"(?:reveal|show|print|repeat|output|display|leak|tellme|giveme)(?:me|all|the){0,2}(?:your|"
            r"system)[a-z]{0,12}?(?:prompt|instruction|rules)"
        ),
    ],
    "role_play": [r"youarenow(?:dan|anevil|anunrestricted)|developermodeenabled|doanythingnow"],
}
"""Searched in letters that had something between each of them."""


def _compiled(patterns: dict[Family, list[str]]) -> list[tuple[Family, re.Pattern[str]]]:
    # one pattern for a family: a text is walked through once for each of them
    return [(family, re.compile("|".join(f"(?:{each})" for each in several))) for family, several in patterns.items()]


_IN_WORDS, _IN_MARKS, _SQUASHED = _compiled(IN_WORDS), _compiled(IN_MARKS), _compiled(SQUASHED)


def check_input(text: str) -> None:
    """Raises `InputRefused` for a text that looks like an attack on the prompt, and counts it by its family."""
    family = family_of(text)
    if family is not None:
        metrics.inputs_refused.labels(family).inc()
        raise InputRefused(family)


def family_of(text: str) -> Family | None:
    """Returns the family of attacks to which a text belongs, or `None` for an everyday text."""
    shown = plain(text)
    found = _matched(readings(shown))
    if found is not None:
        return found
    for hidden, is_code in decoded(text):
        if is_code or _matched([plain(hidden)]) is not None:
            return "encoded_payload"
    return None


def _matched(texts: Iterable[str]) -> Family | None:
    for text in texts:
        for searched, patterns in ((words(text), _IN_WORDS), (text, _IN_MARKS), (squashed(text), _SQUASHED)):
            for family, pattern in patterns:
                if pattern.search(searched):
                    return family
    return None
