"""What of a message is still to be read. A part that is taken is gone; one that is used may be quoted by a prose."""

from __future__ import annotations

from itertools import islice

from inturn.agents.offline.words import Span, clauses, sentences

_JOINTS = frozenset(["and", "but", "also", "plus", "so", "then", "or"])
MOST_CLAUSES = 50
"""Of a longer message the clauses after these are only prose: whoever fills in fields does not write so many."""
_MARKS = " \n,.;:!()<>\"'-"


def parts_of(text: str) -> list[tuple[Span, Span]]:
    """The clauses that are read for fields, each with its sentence."""
    every = ((sentence, clause) for sentence in sentences(text) for clause in clauses(sentence))
    return list(islice(every, MOST_CLAUSES))


class Remainder:
    def __init__(self, text: str) -> None:
        self._whole = Span(text, 0, len(text))
        self._parts = [clause for _, clause in parts_of(text)]
        self._gone: list[Span] = []
        self._used: list[Span] = []

    def take(self, span: Span) -> None:
        """The words belong to a field (or are a question), and are nothing else."""
        last = self._gone[-1] if self._gone else None
        if last and last.end <= span.start and not self._whole.text[last.end : span.start].strip():
            # a thousand questions in a row are one part that is gone
            self._gone[-1] = Span("", last.start, span.end)
        else:
            self._gone.append(span)

    def use(self, span: Span) -> None:
        """The words told something of a field; a prose may still quote them."""
        self._used.append(span)

    def is_touched(self, span: Span) -> bool:
        return any(_meet(span, gone) for gone in self._gone)

    def clause_of(self, span: Span) -> Span:
        return next((part for part in self._parts if _meet(part, span)), span)

    def spans(self, *, with_used: bool = False) -> list[Span]:
        """The clauses that are left; one that was taken in part is shorter."""
        gone = self._gone if with_used else [*self._gone, *self._used]
        left = [Span(_bare(self._kept(part, gone)), part.start, part.end) for part in self._parts]
        return [span for span in left if span.text]

    def text(self, *, with_used: bool = False) -> str:
        """The rest as one text."""
        return self._kept(self._whole, self._gone if with_used else [*self._gone, *self._used])

    def _kept(self, part: Span, gone: list[Span]) -> str:
        pieces, at = [], part.start
        for span in sorted((span for span in gone if _meet(part, span)), key=lambda span: span.start):
            pieces.append(self._whole.text[at : max(at, span.start)])
            at = max(at, span.end)
        pieces.append(self._whole.text[at : max(at, part.end)])
        if len(pieces) == 1:
            return pieces[0].strip()
        text = ""
        for piece in (piece for piece in map(_bare, pieces) if piece):
            joint = "" if not text else " " if text[-1] in ".!?" else ", " if piece[0].islower() else ". "
            text += joint + piece
        return text


def _meet(one: Span, other: Span) -> bool:
    return one.start < other.end and other.start < one.end


def _bare(piece: str) -> str:
    """Without what joined it to its neighbours."""
    left = piece.lstrip(_MARKS).rstrip(" \n,;:(<\"'-")
    while left:
        first, _, following = left.partition(" ")
        before, _, last = left.rpartition(" ")
        if first.casefold() in _JOINTS:
            left = following.lstrip(_MARKS)
        elif last.casefold() in _JOINTS:
            left = before.rstrip(" \n,;:(<\"'-")
        else:
            break
    return left
