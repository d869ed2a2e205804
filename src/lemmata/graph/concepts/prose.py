"""Terms of prose that defines none: acronyms with their long forms, names of systems, and frequent noun phrases.

For corpora of abstracts and of papers without statements, as in computer science. The lists hold words of academic
English in any field: they say what authors do, how good something is, and what part a thing plays in a paper.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from lemmata.core.words import ARTICLES, GENERIC_ADJECTIVES, GENERIC_NOUNS, PHRASE_BREAKS, PREPOSITIONS
from lemmata.graph.concepts.candidates import Candidate, phrase_key
from lemmata.graph.concepts.merge import find_acronyms
from lemmata.graph.concepts.terms import INNER_WORDS, clean_term, key_of, normal, property_or_object


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _verb_forms(text: str) -> Iterator[str]:
    """Base, third person, past and -ing form of regular verbs."""
    for verb in text.split():
        stem = verb.removesuffix("e")
        yield verb
        yield verb[:-1] + "ies" if verb.endswith("y") else verb + ("es" if verb.endswith(("ss", "ch", "sh")) else "s")
        yield verb[:-1] + "ied" if verb.endswith("y") else stem + "ed"
        yield stem + "ing"


# ---------------------------------------------------------------- general academic English

# What authors and methods do. No noun phrase crosses these.
_VERBS = frozenset(
    _verb_forms(
        """accelerate accomplish achieve adapt address adopt affect aim alleviate allow analyse analyze appear argue
        arise assess attain attempt avoid capture characterize combine compare complement conclude conduct confirm
        consider contribute create demonstrate derive describe determine develop devise differ discover discuss employ
        enable encourage enhance ensure establish evaluate examine exceed exhibit exploit explore extend facilitate fail
        focus formalize formulate gain guide handle help highlight identify illustrate implement improve include
        incorporate indicate infer inform inspire introduce investigate involve lack lead leverage maintain
        minimise modify motivate occur offer outperform overcome participate perform permit pose preserve present
        prevent produce propose provide publish pursue raise reach reduce refer refine reflect rely remain remove
        resolve retain reveal serve solve specify suffer suggest summarise surpass tackle tend treat utilise utilize
        validate vary verify yield conjecture lower seem remedy extract compute predict learn maximize"""
    )
) | _words(
    """appears became began built builds chose chosen classify deals detect drawn draws estimates fed grows grown keep
    keeps kept led outperforming predicts predicted ran runs seek seeks shed shown showed sought spent taught thought
    understood went bring brings brought
    according additionally ago alone due especially et al far hereby hoc hand ii iii iv last
    likely longer lot meanwhile next nowadays plus prior regardless today tomorrow twofold unlike unlikely up-to-date
    versus vice versa well first second third previously-unseen
    i.e e.g etc vs ones different various numerous"""
)


# These forms of them stand in terms too: `reinforcement learning`, `learned index`.
_BREAKS = (PHRASE_BREAKS | _VERBS) - _words("learning computing learned computed predicted modified combined zero")
_TERM_ADVERBS = _words(
    """partially fully weakly locally strongly densely conditionally linearly doubly sparsely identically independently
    strictly"""
)
_LY_NOUNS = _words("family assembly anomaly reply supply monopoly")
# How good, new, large or certain something is, never which kind of thing. No term begins with one.
_HOLLOW_ADJECTIVES = GENERIC_ADJECTIVES | _words(
    """accessible accurate adequate advanced ambitious ample appealing applicable appropriate attractive available
    beneficial benchmark broad broader central challenging cheap classic close closer commercial comparable
    compelling competing competitive complementary comprehensive conceptual considerable consistent contemporary costly
    critical cumbersome cutting-edge daily decent dedicated deeper demanding diverse domain-specific dominant dramatic
    earlier effective efficient elegant emerging empirical encouraging enormous equal essential everyday excellent
    exciting expensive experimental extensive fair faster favorable feasible few fewer final flexible formidable
    foundational fresh fruitful fundamental future generic genuine grand growing handcrafted hand-crafted heavy helpful
    high higher highest high-quality huge ideal immediate immense impressive improved inadequate incorrect increased
    increasing indispensable inexpensive inferior influential inherent initial innovative insightful insufficient
    intended intricate intriguing invaluable large-scale largest lengthy lesser limited long-standing longstanding low
    lower lowest major massive meaningful mere minor moderate near-optimal newer noteworthy novel off-the-shelf
    ongoing open-source outstanding overwhelming paramount particular past perfect pioneering plain plausible poor
    popular powerful practical pre-existing preliminary pressing primary principled problematic prohibitive prominent
    promising proper proposed proven public publicly qualitative quantitative quick rapid rare raw real real-life
    real-world realistic reasonable related reliable resulting rich richer rough routine same satisfactory scarce
    sensible serious severe sheer significant simplistic sizable slight slow slower so-called solid sophisticated
    state-of-the-art state-of-art striking stronger substantial successful superior surprising systematic tedious
    theoretical thorough time-consuming top traditional tremendous tricky ubiquitous ultimate unclear undesirable
    unexpected unified unprecedented unsatisfactory upcoming user-friendly valid valuable vast versatile viable vital
    wide wider widespread worthwhile total average extra-large positive negative actual desired seen unseen
    hundred thousand million many much several two three four five in-depth associated predicted open nice interested
    self-contained human"""
)
# As the last word they say which part a thing plays in a paper, or measure its success.
_HOLLOW_HEADS = (
    GENERIC_NOUNS
    | _words(
        """ability absence abundance acceptance access achievement addition adoption advance advancement advent advice
        aid alternative analyst aspect assessment attempt author availability avenue awareness background barrier
        baseline benchmark benefit breadth breakthrough burden capability career center challenge chance change
        characteristic circumstance clue collaboration combination comparison competition competitor complication
        component concern conclusion consensus consideration consumption contrast contribution contributor count
        counterpart coverage creation credit criticism current deal debate decade decrease deficiency demand deployment
        depth desire developer development difficulty direction disadvantage discrepancy disparity diversity drawback
        ease effect effectiveness efficacy efficiency effort emergence emphasis end engineer enhancement era essence
        evaluation evidence evolution examination excellence experience experiment experimentation expertise extent
        facet factor failure feasibility flaw flexibility focus form foundation framework freedom future gain generality
        growth guarantee guidance guideline hand help human impact implementation importance improvement inability
        inclusion increase influence insight inspiration interest intuition investigation involvement job
        lack landscape latter lead level life limitation literature lot majority margin matter means merit methodology
        million mind minority mode need nature novelty number objective obstacle occasion opportunity option order
        orders origin outcome outline overhead participant past people percent percentage performance period person
        perspective phenomenon plenty popularity portion possibility potential practice practitioner presence pressure
        prevalence priority progress project promise proposal prospect publication pursuit quality quantity range
        reality realm recent remainder replication report requirement research researcher respect result rise role
        run sake satisfaction scarcity scenario scholar scientist scope scrutiny sense shape share shortcoming show
        significance simplicity size society speed speedup speed-up spread stage standard standpoint start
        state-of-the-art status strength study subtlety success suggestion suitability suite superiority support surge
        survey target team tendency theme thousand tool toolkit trade treatment trend trial trouble understanding usage
        use usefulness validity variation variety version viewpoint volume weakness website week whole wisdom work
        worker world worth accuracy quality art dataset corpora others issue problem-solving consequence extension
        half hour minute second month day implication superset simulation usability fashion fraction characterization
        characterisation force community intervention look presentation handling
        participation observer decision resource meaning subset risk environment review election message headline
        company country city customer employee student teacher photo"""
    )
) - _words(
    """algorithm axiom bound class criterion data element equation error estimate formula hypothesis identity
    inequality information input instance law lemma letter line method output page principle problem procedure process
    program proof property rule symbol table technique term text theorem time topic tuple word"""
)
# They make a term only with a word before them that names a kind: `sorting algorithm`, not `simple algorithm`.
_WEAK_HEADS = _words(
    """algorithm analysis architecture area class data domain element error estimate feature function group
    information input instance item line method model module object output page problem procedure process property
    rule sample setting solution step structure system task technique term text time topic tuple type unit user value
    variable word technology platform application scheme strategy mechanism paradigm representation reasoning criterion
    information measure metric form convergence machine content image"""
)
# What is done; `automatic` and `robust` say how well.
_TASKS = _words(
    """learning training inference segmentation extraction detection classification prediction optimization optimisation
    sampling estimation recognition generation selection planning search computation integration annotation tuning
    recovery initialization initialisation behavior behaviour knowledge"""
)
# Before a weak head or a task they name no kind: `fast algorithm`, but `fast Fourier transform`.
_LOOSE_MODIFIERS = _words(
    """adaptive alternative appropriate automatic candidate comparative complete complex computational concise constant
    core creative distinctive exact fast intelligent iterative joint manual natural noisy numerical optimal
    parallel personal physical robust scalable selected sensitive shared similar strong
    uncertain unknown weak well-studied whole transfer driving expert learned learnt compact better
    context-aware data-driven data driven low-level high-level task-specific resulted extracted dense financial medical
    clinical automated fixed-length low-dimensional independent creation background discrete predefined seamless
    external engineered accurate effective efficient single-step reliable careful user"""
)


def _is_adverb(word: str) -> bool:
    return word.endswith("ly") and word not in _TERM_ADVERBS and word not in _LY_NOUNS


_NOT_IN_TERMS = re.compile(r"^based$|-based$|^[a-z]+['’]s?$|^s$|[a-z]i[sz]es$|ifies$")


def is_term(words: Sequence[str]) -> bool:
    """Whether a noun phrase can be an index term, by its words alone."""
    small = [word.casefold() for word in words]
    head = normal(small[-1])
    if any(word in _HOLLOW_ADJECTIVES or normal(word) in _HOLLOW_ADJECTIVES for word in small[:-1] or small):
        return False
    if head in _HOLLOW_HEADS or small[-1] in _HOLLOW_HEADS or head.endswith("ly"):
        return False
    if len(words) == 1:
        return head not in _WEAK_HEADS and head not in GENERIC_NOUNS
    if len(head) == 1 or any(_NOT_IN_TERMS.search(word) or _is_adverb(word) for word in words):
        return False
    modifiers = {word for word in small[:-1] if word not in INNER_WORDS}
    weak = head in _WEAK_HEADS | _TASKS and modifiers <= _LOOSE_MODIFIERS
    return not weak and not all(normal(word) in GENERIC_NOUNS | _WEAK_HEADS for word in small)


# ---------------------------------------------------------------- noun phrases

_TOKEN = re.compile(r"[^\W_]+(?:['’][^\W\d_]+)?(?:[-–‐][^\W_]+)*|\S")

_BEFORE_NOUNS = (
    ARTICLES
    | (PREPOSITIONS - {"to"})
    | _words(
        "this that these those our their its his each every any some such as into via and or both no all using than"
    )
)
_NAME = re.compile(r"(?<![\w\\-])(?=\w*[A-Z]\w*[A-Z])(?=\w*[a-z]{2})[A-Za-z][A-Za-z0-9]{3,}(?![\w-])")
_ADJECTIVE = re.compile(r"-(?:free|level|order|aware|driven|wise|dimensional|time|scale|like|specific|size|rank)$")
_VERB_FORM = re.compile(r"^[^ ]+(?: [^ ]+)* (?:[a-z]+(?:erates|icates|ulates|itates)|[a-z]+s [a-z]+ing|occurring)$")
_MOST_KEYS = 1_000_000  # phrases that are counted at a time
_LONGEST = 4  # words of a phrase


def noun_phrases(masked: str) -> Iterator[tuple[list[str], str]]:
    """Runs of content words, each with the word before it in small letters ("" at the start of a sentence)."""
    run: list[str] = []
    before = last = ""
    for token in _TOKEN.findall(masked):
        small = token.casefold()
        if token[0].isalnum() and not token.isdigit() and small not in _BREAKS and not _is_adverb(small):
            if not run:
                before = last
            run.append(token)
        else:
            if run:
                yield from _trimmed(run, before)
                run = []
            last = small if token[0].isalpha() else "" if token in set(".!?;:") else ","
    if run:
        yield from _trimmed(run, before)


def _trimmed(run: list[str], before: str) -> Iterator[tuple[list[str], str]]:
    """Without participles at the end: `neural networks trained` before `on`."""
    while run and re.search(r"[^e]ed$", run[-1]):
        run.pop()
    if run:
        yield run, before


_NOUN_ENDINGS = ("ent", "ant", "ar", "ian", "ean", "ite", "ute", "ete")  # of adjectives too
_ADJECTIVES = _words(
    """dependent independent efficient consistent recurrent equivalent convergent divergent different relevant redundant
    dominant constant invariant linear nonlinear bilinear similar regular modular binary finite infinite discrete
    complete concrete absolute bayesian gaussian euclidean boolean markovian"""
) - _words("constant invariant gaussian")


def _is_noun(word: str) -> bool:
    """Whether the last word of a noun phrase looks like a noun: `descent`, not `convolutional`."""
    small = word.casefold()
    return property_or_object(small) == "object" or (small.endswith(_NOUN_ENDINGS) and small not in _ADJECTIVES)


class ProseTerms:
    """Counts of the noun phrases, names and acronyms of a corpus, passage by passage."""

    def __init__(self) -> None:
        self.passages = 0
        self.most_keys = _MOST_KEYS
        self.passages_with: Counter[str] = Counter()  # key of a phrase: passages in which a run ends with it
        self.framed: Counter[str] = Counter()  # key: passages where it is a whole noun phrase behind an article
        self.uses: Counter[str] = Counter()
        self.word_uses: Counter[str] = Counter()
        self.written: dict[str, str] = {}  # key: as written at its first, third or 20th use
        self.names: Counter[str] = Counter()  # name with a capital inside: passages
        self.acronyms: dict[str, Counter[str]] = {}  # acronym: long forms
        self.entitled: dict[str, str] = {}  # key of a noun phrase of a title that its text repeats: as written

    def read(self, masked: str, title: str = "") -> None:
        """Count one passage; `title` is that of a document that begins with it."""
        self.passages += 1
        keys: set[str] = set()
        framed: set[str] = set()
        repeated: Counter[str] = Counter()
        title_key = f" {phrase_key(_TOKEN.findall(title))} " if title else ""
        for run, before in noun_phrases(masked):
            for start in range(max(0, len(run) - _LONGEST), len(run)):
                words = run[start:]
                key = phrase_key(words)
                keys.add(key)
                self.uses[key] += 1
                if key not in self.written or self.uses[key] in (3, 20):
                    self.written[key] = " ".join(words)
            self.word_uses.update(phrase_key([word]) for word in run)
            gerund = run[0].casefold().endswith("ing") and before not in ARTICLES
            if 1 < len(run) <= _LONGEST and before in _BEFORE_NOUNS and not gerund:
                key = phrase_key(run)
                framed.add(key)
                repeated[key] += 1
                if f" {key} " in title_key and repeated[key] == 2:
                    self.entitled.setdefault(key, " ".join(run))
        self.passages_with.update(keys)
        if len(self.passages_with) > self.most_keys:
            self._forget_rare()
        self.framed.update(framed)
        self.names.update(set(_NAME.findall(masked)))
        for acronym, long in set(find_acronyms(masked)):
            self.acronyms.setdefault(acronym.removesuffix("s"), Counter())[" ".join(long.split())] += 1

    def _forget_rare(self) -> None:
        """Drop the phrases that one passage has used so far: most never return, and memory stays bounded."""
        for key in [key for key, passages in self.passages_with.items() if passages < 2]:
            del self.passages_with[key], self.uses[key], self.written[key]
            self.framed.pop(key, None)
        self.most_keys = max(_MOST_KEYS, 2 * len(self.passages_with))  # so that this stays rare

    def candidates(self) -> Iterator[Candidate]:
        """All terms, the surest first."""
        for acronym, long_forms in self.acronyms.items():
            by_key: dict[str, Counter[str]] = {}
            for long, number in long_forms.items():
                name = clean_term(long)
                noun = name and _is_noun(name.split()[-1]) and not _ADJECTIVE.search(name)
                if noun and is_term(name.split()):
                    by_key.setdefault(key_of(name), Counter())[name] += number
            total = sum(long_forms.values())
            for names in by_key.values():
                sure = 5 * names.total() >= 4 * total and (len(acronym) > 2 or total > 2)
                yield Candidate(names.most_common(1)[0][0], "object", "acronym", "", (acronym,) if sure else ())
        for phrase in self.phrases():
            yield Candidate(phrase, "object", "phrase")
        for phrase in self.entitled.values():
            words = phrase.split()
            if clean_term(phrase) and is_term(words) and _is_noun(words[-1]):
                yield Candidate(phrase, "object", "title")
        for name, passages in self.names.items():
            if passages >= self.fewest and name not in self.acronyms:
                yield Candidate(name, "object", "name")

    @property
    def fewest(self) -> int:
        """Passages that must use a phrase; a large corpus repeats more by chance."""
        return max(3, round(math.log2(self.passages + 1)) - 9)

    def phrases(self) -> Iterator[str]:
        """Frequent, cohesive noun phrases, as most often written."""
        longer: Counter[str] = Counter()
        for key, uses in self.uses.items():
            shorter = key.partition(" ")[2]
            if shorter:
                longer[shorter] = max(longer[shorter], uses)
        total = sum(self.word_uses.values())
        for key, passages in self.passages_with.items():
            if (
                passages < self.fewest
                or self.framed[key] < max(2, passages // 8)
                or 3 * longer[key] > 2 * self.uses[key]
            ):
                continue
            written = self.written[key]
            words = written.split()
            if len(words) < 2 or not clean_term(written) or not is_term(words):
                continue
            if not _is_noun(words[-1]) or _VERB_FORM.search(written):
                continue
            parts = [phrase_key([word]) for word in words]
            rest = self.uses[" ".join(parts[1:])]
            bits = math.log2(self.uses[key] * total / (max(1, self.word_uses[parts[0]]) * max(1, rest)))
            least = min(4, math.log2(total) / 3) if len(words) == 2 else min(7, math.log2(total) / 2)
            if bits >= least:  # which a short text cannot reach
                yield written
