"""Words that carry no content in a query. They are indexed; only asking for them means nothing.

English: articles, common prepositions, forms of be, do and have, modals, question words,
pronouns, and adverbs, conjunctions and quantities that usual lists of such words hold (`just`,
`very`, `any`; 非常, 但是, 一些).
Negations (`not`, `no`, `never`, 不, 没, 无) are content and are not here.
Chinese is written simplified: queries are folded before they are compared.
"""

import re


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


ENGLISH = _listed(
    """
    a an the and or if then for of to in on at by from with as into about
    am is are was were be been being do does did doing have has had having
    can could should would shall will may might must
    what which who whom whose when where why how
    i me my we us our you your he him his she her it its they them their
    this that these those there here please
    just very also too really so quite rather such than because while
    some any both each all more most much many other another
    again once up out over
    """
)

CHINESE = frozenset(
    "的地得了着过吗呢吧啊呀么嘛是在有和与及或把被将就都也很为以于请我你您他她它们这那哪谁怎啥咋之其而则"
)
"""Single characters: as part of a pair they stay, alone they say nothing."""

_PHRASES = _listed(
    "为什么 怎么样 怎么办 怎么回事 怎么 怎样 什么时候 什么样 什么 如何 为何 何时 何处 何种 "
    "啥时候 啥样 为啥 咋样 多久 另外 哪位 哪家 哪天 哪年 是否 能否 可否 "
    "是不是 能不能 可不可以 有没有 该不该 要不要 应不应该 应该 应当 可以 "
    "哪些 哪个 哪里 哪儿 哪种 多少 几个 请问 我们 你们 咱们 他们 它们 大家 "
    "这个 那个 这些 那些 这里 那里 这样 那样 一下 关于 以及 或者 还是 的话 "
    "非常 十分 特别 比较 相当 真的 其实 只是 仅仅 已经 还有 再次 "
    "但是 不过 可是 然而 因为 所以 因此 而且 并且 如果 要是 虽然 然后 除了 "
    "一些 有些 有点 一点 一个 一种 任何 所有 全部 每个 许多 很多 更多 其他 其它 另一个"
)
CHINESE_PHRASE = re.compile("|".join(sorted(_PHRASES, key=lambda phrase: (-len(phrase), phrase))))
"""Longest first. A phrase says nothing even as a pair."""

JAPANESE = frozenset("のはがをにでとへもやかねよ") | {"です", "ます"}


def is_one(word: str) -> bool:
    """Whether an English word, or a contraction of one (`what's`, `i'm`), is a function word."""
    return word.partition("'")[0] in ENGLISH
