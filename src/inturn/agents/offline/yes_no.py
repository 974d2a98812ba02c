"""The wordings of yes, no and perhaps. One that can begin another sentence is harmless: the whole message is read."""

from __future__ import annotations

YES = (
    "yes|yep|yeah|yup|yea|ya|y|aye|sure|sure thing|k|of course|certainly|absolutely|definitely|indeed|agreed|agree|"
    "consent|accept|accepted|please do|go|go ahead|go for it|go on|proceed|continue|do it|do that|i do|i am|i agree|"
    "i consent|i accept|i would|we do|we agree|we consent|we accept|i do agree|i do consent|i agree to that|"
    "i agree to this|i agree with that|i agree with this|i consent to that|i consent to this|i allow it|i allow that|"
    "sounds good|sounds right|looks good|looks right|looks fine|looks correct|looks ok|looks great|looks good to me|"
    "good to go|all good|all right|all set|all fine|all correct|all ok|alright|it is|it does|that's it|that is it|"
    "that's me|that's fine with me|that is fine with me|fine with me|fine by me|ok with me|okay with me|"
    "that would be fine|that would be good|that would be great|that'd be fine|that works|works for me|affirmative|"
    "exactly|precisely|why not|no problem|no objection|no objections|i don't mind|i do not mind|i have no objection|"
    "i have no objections|i think so|i guess so|i suppose so|i believe so|with pleasure|gladly|by all means|you may|"
    "you can|you may do that|you can do that|you can send it|you may send it|confirmed|confirm|i confirm|"
    "i confirm that|i confirm this|submit|submit it|send|send it|send it off|send it now|send this|send that|"
    "i'm sure|i am sure|done|lgtm"
)
NO = (
    "no|nope|nah|n|not|no way|never|not really|not at all|not yet|not now|false|negative|i don't|i do not|i am not|"
    "i'm not|i won't|i will not|i would not|i wouldn't|we don't|we do not|don't|do not|please don't|rather not|"
    "i'd rather not|i would rather not|i disagree|disagree|wrong|incorrect|that's wrong|that is wrong|it's wrong|"
    "it is wrong|no thanks|no thank you|i don't think so|i do not think so|not that i know|not that i know of|"
    "not that we know|not that we know of|not that i'm aware of|none|nothing|it isn't|it is not|it's not|isn't|"
    "that isn't|that's not|that is not|certainly not|absolutely not|of course not|definitely not|i refuse|"
    "under no circumstances|there isn't|there is none|there are none|there aren't|there isn't one|there isn't any|"
    "there is no way|none that work|none that works|i have none|we have none|i don't have one|we don't have one|"
    "i don't have any|we don't have any|we have not found one|i have not found one|we haven't found one|"
    "i haven't found one|haven't found one|i don't know one|we don't know one|i don't know of one|i don't know any|"
    "i don't know of any|we don't know any|we don't know of any|i know none|we know none|i know of none|without"
)
UNSURE = (
    "not sure|i'm not sure|i am not sure|i'm unsure|i am unsure|maybe|perhaps|i don't know|i do not know|"
    "we don't know|we do not know|don't know|do not know|no idea|i have no idea|we have no idea|dunno|yes and no|"
    "it depends|depends|not certain|i'm not certain|i am not certain|i don't understand|i do not understand|no clue|"
    "unsure"
)
HAVE = (
    "there is|there's|there are|there is one|there's one|there are some|i have|we have|i have one|we have one|"
    "i've got one|we've got one|i know|we know|i know one|we know one|i found|we found|i found one|we found one|"
    "i've found one|we've found one|i've got|we've got"
)
"""That there is something: a yes, unless a `no` stands beside it (`we have no workaround`)."""

FILLERS = (
    "well|um|uh|uhm|hmm|hm|oh|ah|actually|please|pls|thanks|thank you|thx|many thanks|thanks a lot|"
    "thank you very much|thanks so much|thank you so much|cheers|so|then|and|hi|hello|just|very much|really|truly"
)
SUBJECTS = [
    "it", "that", "this", "all", "everything", "the summary", "the data", "all of it", "all of this", "all of that",
    "it all", "that all", "this all", "your summary", "all this", "all that",
]  # fmt: skip
VERBS = [" is", "'s", " looks", " seems", " sounds"]
GOOD = [
    "right", "correct", "good", "fine", "ok", "okay", "perfect", "great", "true", "in order", "accurate", "excellent",
    "cool", "nice", "good to me", "fine to me", "right to me",
]  # fmt: skip

SMALL = frozenset([
    "a", "an", "the", "any", "this", "that", "to", "of", "it", "one", "with", "for", "my", "our", "your", "yet", "far",
    "at", "moment", "known", "found", "give", "i", "we", "have",
])  # fmt: skip
"""Words around the name of a field that say nothing by themselves: `there is no workaround for it`."""
