"""Given names that people write in small letters after `i'm`, where almost anything else may stand.

Common ones of many countries, without those that are also words (`mark`, `will`, `rich`): whoever is not among them
is asked to write the name alone.
"""

from __future__ import annotations

_NAMES = """
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
GIVEN_NAMES = frozenset(_NAMES.split())
