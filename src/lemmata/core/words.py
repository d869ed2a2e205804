"""Words of English and German: stop lists, the language of a text, singulars, stems, folded spelling, and names as ids.

The only home of word lists that several folders use. Nothing here looks at a corpus.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# ---------------------------------------------------------------- stop lists

ARTICLES = _words("a an the")


PREPOSITIONS = _words("along at between by for from in modulo of on over to under with without")
# Join the content words of a name or title: `ring of integers over a field`.
LINKING_WORDS = ARTICLES | PREPOSITIONS | _words("and or")
GERMAN_LINKING_WORDS = _words(
    """am auf aus bei beim das dem den der des die ein eine einem einen einer eines für fur im mit nach über uber und
    vom von zu zum zur"""
)
# Not indexed for lexical search. A change here changes every index and every lexical score.
STOP_WORDS = _words(
    """a an and are as at be been but by can each for from had has have if in into is it its no not of on or such than
    that the their then there these they this those to was we were which will with"""
)
# Not indexed for lexical search in German, as they are written with umlauts or without them. `nicht`, `kein`, `aus` and
# `ab` stay: a pump that is off is not one that runs.
GERMAN_STOP_WORDS = _words(
    """aber als also am an auch auf bei beim bin bis da dann das dass daß dem den denn der des die dies diese diesem
    diesen dieser dieses doch du durch ein eine einem einen einer eines er es für fuer hat hatte hier ich ihr ihre im in
    ist ja je man mit nach noch nun nur ob oder schon sehr sein seine sich sie sind so um und uns unter vom von vor war
    waren was welche welchem welchen welcher welches wenn wer werden wie wieder wir wird wo worden wurde wurden über
    ueber zu zum zur"""
)
# Never inside a noun phrase of mathematical prose, in English or German: pronouns, verbs of proofs, adverbs, numerals.
PHRASE_BREAKS = (
    STOP_WORDS
    | (GERMAN_LINKING_WORDS - _words("beim fur uber"))
    | _words(
        """
    able about above above-mentioned across actually aforementioned after again against all allow allows along already
    also although always am among amongst another any applied applies apply applying appropriate around assume basically
    because become becomes becoming before begin begins behind being belong belonging belongs below beneath beside
    besides between beyond both call called calling calls certain certainly cf choose chooses chosen clearly come comes
    coming consider considered consist consisting consists contain contained containing contains conversely correspond
    corresponding corresponds could define defined defines defining denote denoted denotes denoting depend depending
    depends described desired despite did different directly discussed do does doing done down during e.g easily eg
    eight either else end ends enough entire equal equaling equals especially essentially etc even ever every evidently
    exactly except exist existing exists explicitly few finally find finds firstly five follow followed following
    follows form formed former forming forms found four furthermore gave generally get gets give given gives giving go
    goes going having he held hence her here his hold holding holds how however hundred i i.e ie iff immediately implied
    implies imply implying indeed inside instead itself just know knowing known knows last latter least less let lets
    lie lies like lying made make makes making many may maybe mean means meant mentioned merely might more moreover most
    much must namely near necessarily need needed needs neither never nevertheless next nine none nor note noted notes
    now observe observed observes obtain obtained obtains obviously off often once one ones only onto other others
    otherwise our out outside over own particular particularly per perhaps pick possible preceding precisely previous
    probably prove proved proven proves provide provided provides proving put puts putting quite rather really recall
    recalls regarded regarding replace replaced replaces replacing represent represented representing represents require
    required requires resp respective respectively resulting roughly said same satisfied satisfies satisfy satisfying
    say says secondly see seeing seen sees set-up sets seven several shall she should show showing shown shows similar
    similarly simply simultaneously since six so some sometimes soon start starting starts stated still suitable suppose
    take taken takes taking ten them therefore think though three through thus together too took toward towards tries
    trivially try twice two under unless until up upon us use used uses using usual usually various very via viewed viz
    want wants what whatever when whenever where wherever whether whichever while who whole whom whose why within
    without work works would write writes writing written wrt yet yield yields you your zero
    it's isn't doesn't don't can't let's we'll i'm
    alle als auch bis dass daß durch er es falls gelten genannt gilt haben hat heissen heißen heißt ist jede jeder jedes
    kein man nennen nennt nicht oder sei seien sich sie sind unter vor war wenn werden wie wir wird
    """
    )
)
# Before a noun they add nothing that one could look up.
GENERIC_ADJECTIVES = _words(
    """
    above actual additional aforementioned aforesaid alternate alternative analogous arbitrary bad basic below best
    better big bigger brief careful certain chosen clear common concerned concrete consecutive constructed convenient
    conventional correct corresponding couple crucial current described desirable desired detailed different difficult
    direct displayed distinct early easier easy elementary entire evident existing explicit extra false famous fifth
    first fixed following fourth full further general given good great hard harder higher-level historical identical
    implicit important impossible individual informal interested interesting intuitive key known large larger late left
    little long main mentioned modern multiple naive necessary new nice non-empty non-trivial non-zero nonempty
    nontrivial nonzero notable numerous obtained obvious old ordinary original overall own possible potential preceding
    precise present previous recent relevant remaining remarkable required respective right rigorous second separate
    short similar simple simpler single small smaller special specific standard stated straightforward stronger
    subsequent successive sufficient suitable technical third trivial true typical underlying unique unknown useful
    usual various weaker well-known whole worse worst wrong
    """
)
# Alone they name nothing that one could look up.
GENERIC_NOUNS = _words(
    """
    advantage aim algorithm amount analog analogue answer appendix application approach area argument article assertion
    assumption author axiom beginning bibliography bit book bottom bound calculation case caution chapter check choice
    claim class collection comment computation concept conclusion condition conjecture connection consequence
    construction context convention corollary couple criterion data day definition description detail difference
    difficulty discussion element entry equation error estimate example exercise existence explanation expression fact
    family figure file finding formula generalisation generalization goal hint history hypothesis idea identity
    implication inequality information input instance introduction issue item kind law left lemma letter line list
    literature manner matter member method middle mistake moment motivation name necessity notation notion observation
    occurrence output overview page pair paper part phrase picture piece place possibility principle problem procedure
    process program proof property proposition purpose question reader reason reference relationship remark rest result
    right role rule section sense setting setup shape side sign similarity situation solution sort stage statement step
    subject summary symbol table technique term terminology text theorem thing time title top topic trick triple tuple
    type unique uniqueness user value variant version view warning way word year
    """
)
_TITLE_WORDS = _words(
    """
    appendix application applications background basic bibliography case cases chapter comments consequences
    constructions conventions definition definitions elementary example examples exercise exercises existence facts
    first further generalities history index introduction list miscellaneous more motivation notation notes other
    overview preliminaries proof proofs properties property references remark remarks results second section simple
    special summary third uniqueness variant variants
    """
)
# A title that begins or ends with one of these says what is done, not what it is about: `Proof of X`, `X: examples`.
TITLE_FRAME_WORDS = _TITLE_WORDS | _words(
    """
    about additional alternate alternative another being calculating characterisation characterization comparison
    computations computing converting counterexample counterexamples criteria derivation determining direct equivalence
    finding generalisations generalizations how lecture maple numerical proposed relations relationship showing
    solutions some table tables techniques temporary topics use uses using values what when why
    """
)
# A title made of these alone could stand over anything; `Special values` could not.
GENERIC_TITLE_WORDS = _TITLE_WORDS | _words(
    """
    abstract abuse acknowledgement acknowledgements acknowledgment acknowledgments analysis anhang anwendung anwendungen
    appendices approach assumption assumptions auxiliary basics beispiel beispiele bemerkung bemerkungen beweis beweise
    bezeichnung bezeichnungen chapters claim claims comment concluding conclusion conclusions conjecture conjectures
    consequence construction contribution contributions convention cor corollaries corollary data def definitionen
    discussion einführung einleitung eq equation equations ergebnis ergebnisse evaluation experiment experimental
    experiments fact final folgerung folgerungen formula formulae formulas future general generality grundlagen
    historical hypotheses hypothesis identities identity intro introductory key language last lem lemma lemmas lemmata
    literatur literature main method methods miscellanea miscellany new notations note notion notions old open others
    outline paper part parts preliminary present problem problems prop proposition propositions question questions
    reference related result review rule rules satz sec sections set setting setup situation standard statement
    statements step steps sätze technical terminology theorem theorems thm up useful version vorbemerkung vorbemerkungen
    warning work zusammenfassung
    """
)
# Around the subject of a question: `What is the definition of a flat module?`
QUESTION_WORDS = _words(
    """about called characterisation concept condition defined definition describe does exist explain give hold how
    imply is mean meaning means proof prove proved say said says show state stated statement there was what when where
    which who whose why"""
)
# Sentences of these alone only lead to the next statement: `We now prove the following useful lemma.`
CONNECTING_WORDS = (
    STOP_WORDS
    | LINKING_WORDS
    | _words(
        """
    about above after all also another any as before begin below both briefly brief collect collected come complete
    conclude continue deduce describe discuss do easy end few final finally first following follows further get give
    given gives go here how immediate important in interesting intermediate introduce just last later let lets
    let's list look main many more most move need needed new next note now obligatory obtain obvious occasionally of
    often once one only other our out own preliminary prepare present previous proceed prove proved proves proving ready
    recall record remains review same second section see several shall short show simple so some special start state
    still study sub summarise summarize technical then third three to together turn two us use used useful
    usual various version very want what
    chapter claim claims consequence consequences corollaries corollary definition definitions example examples
    exercise exercises fact facts lemma lemmas lemmata notation notations notion notions observation observations
    paragraph proof proofs proposition propositions remark remarks result results statement statements subsection
    terminology theorem theorems variant variants
    beweis beweisen definition folgende folgenden folgendes lemma nun satz wir zeigen zunächst
    """
    )
)
# Say nothing about the equipment in a shift log. `no` and `nicht` are not here: they change what is reported.
LOG_STOP_WORDS = _words(
    """a an the is are was were at on in of to for and or by with from it still again now yet ok all
    other since used only that this same here there then today yesterday
    alle nur schon wegen letzten monat gestern heute
    der die das den dem ein eine ist sind war im in am an auf zu und oder mit von bei nach noch wieder jetzt
    auch wird wurde um durch vom zur zum für fuer ab bis seit sehr u"""
)


# ---------------------------------------------------------------- spelling

UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})


def fold(text: str) -> str:
    """Without case and accents: `Möbius` to `mobius`."""
    text = text.casefold()
    if text.isascii():
        return text
    return "".join(letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))


_WRITTEN_UE = re.compile(r"(?<![aeiouq])ue")  # not in `neue`, `Quelle`


def fold_german(word: str) -> str:
    """Without case, umlauts and their transcriptions: `Prüfung`, `Pruefung` and `Prufung` are `prufung`."""
    return _WRITTEN_UE.sub("u", fold(word)).replace("ae", "a").replace("oe", "o")


# ---------------------------------------------------------------- language

LANGUAGES = ("en", "de", "de+en")  # of a corpus


_WORD = re.compile(r"\\[A-Za-z]+|([^\W\d_]{2,})")  # no command of LaTeX
_READ = 4000  # characters of a text: enough to tell its language
_ENGLISH_WORDS = (STOP_WORDS | LINKING_WORDS | QUESTION_WORDS) - _words("am an in was will had modulo so")
_GERMAN_WORDS = (GERMAN_STOP_WORDS | _words("nicht kein keine aus ab bzw sowie jetzt dabei danach wegen seit ohne")) - (
    _words("also am an das die hat in man so uns war was")
)
# letters at the start (<), the end (>) or anywhere in a word that one language has and the other hardly
_ENGLISH_LETTERS = re.compile(
    r"th|wh|<wa|ough|igh|ea|oo|ow|ee(?=[dpkt])|sh(?=[aeiou>])|ck(?=[ls>])|ll>|ss>|ity>|ty>|ly>|ry>|ay>|ing>|ed>|ge>|ve>|le>|"
    r"re>|te>|se>|ce>|ure>|ous>|ful>|ble>|<wr|<ou|<qu|c(?=[aeiourlty])|(?<=[aeou])y|oa|sp>|mp>|wn>|nk>"
)
_GERMAN_LETTERS = re.compile(
    r"[äöüß]|sch|cht|ung>|ungs|keit|heit|lich|ier(?:t|en)>|tz|<ge(?=[^nr])|<ver|<vor|<ein|<aus|<auf|<ab(?=[^sol])|pf|<kn|"
    r"<z|ei|ie(?=[blfrt])|chen|<um|en>|rk|<k(?=[aolru])|kt|zu|au|eu|aa|uh|eh|ah|oh|<ueb|ch>|<j|lk|rz|nz"
)


def language_of(text: str) -> str:
    """`en` or `de` by function words and letters; an empty string where nothing tells, as in a formula or a code.

    >>> language_of("Lager der Pumpe P-203 heiß"), language_of("bearing of the pump is hot"), language_of("P-203: 4,2")
    ('de', 'en', '')
    """
    evidence = sum(map(_evidence_of_german, map(str.lower, _WORD.findall(text[:_READ]))))
    return "de" if evidence > 0 else "en" if evidence < 0 else ""


@lru_cache(maxsize=1 << 16)
def _evidence_of_german(word: str) -> int:
    """Below 0 for English; a function word weighs as much as three groups of letters."""
    if word in _GERMAN_WORDS or word in _ENGLISH_WORDS:
        return 3 if word in _GERMAN_WORDS else -3
    if len(word) < 4:
        return 0
    framed = f"<{word}>"
    return len(_GERMAN_LETTERS.findall(framed)) - len(_ENGLISH_LETTERS.findall(framed))


def language_shares(texts: Iterable[str]) -> dict[str, float]:
    """The share of each language among the texts that tell theirs, the largest first; empty where none does."""
    counts = Counter(filter(None, map(language_of, texts)))
    return {language: count / counts.total() for language, count in counts.most_common()}


# ---------------------------------------------------------------- singular

# Written before another word, with or without a hyphen.
PREFIXES = _words(
    """anti bi co counter eigen endo hyper infra inter macro meta micro multi non poly pre pseudo quasi self semi sub
    super trans ultra"""
)


_IRREGULAR = (  # pairs of plural and singular
    "abscissae abscissa aliases alias analyses analysis annuli annulus antitheses antithesis apices apex appendices "
    "appendix atlases atlas automata automaton axes axis bases basis biases bias buses bus caches cache calculi "
    "calculus canvases canvas children child continua continuum cortices cortex criteria criterion directrices "
    "directrix emphases emphasis extrema extremum foci focus focuses focus formulae formula gases gas "
    "genera genus genuses genus halves half helices helix hypotheses hypothesis icosahedra icosahedron indices index "
    "infima infimum leaves leaf lemmata lemma lenses lens loci locus matrices matrix maxima maximum "
    "minima minimum momenta momentum nuclei nucleus octahedra octahedron optima optimum parentheses parenthesis "
    "phenomena phenomenon polyhedra polyhedron quanta quantum quizzes quiz radii radius schemata schema sheaves sheaf "
    "simplices simplex spectra spectrum statuses status stimuli stimulus strata stratum suprema supremum syntheses "
    "synthesis tableaux tableau tetrahedra tetrahedron theses thesis topoi topos toposes topos tori torus toruses "
    "torus trapezia trapezium vertices vertex viruses virus vortices vortex zeroes zero"
).split()
_COUNTED = (  # others in -ics are fields of study: dynamics, mathematics
    "characteristics conics cubics geodesics harmonics heuristics logics metrics octics quadrics quartics quintics "
    "sextics topics"
).split()
_SINGULAR_OF = dict(zip(_IRREGULAR[::2], _IRREGULAR[1::2], strict=True)) | {word: word[:-1] for word in _COUNTED}
_SURNAMES = _words(
    """adams archimedes bayes brooks burgers descartes edwards erdos evans gibbs hales harris hayes hicks hodges hopkins
    jacobs jones matthews mills myers nichols phillips reynolds richards roberts rogers sanders simons stevens stokes
    thales watts williams yates"""
)
_SINGULARS = (  # no plurals, although they end like one
    _words("chaos corps cosmos ethos fels glas impuls lens moduli news perhaps puls series species yes")
    | _SURNAMES
    | frozenset(_SINGULAR_OF.values())
)


@lru_cache(maxsize=1 << 16)
def singular(word: str) -> str:
    """The singular of an English noun in small letters; any other word stays: `matrices` to `matrix`, `basis`."""
    start, hyphen, last = word.rpartition("-")
    if hyphen:
        return start + hyphen + singular(last)
    if word in _SINGULAR_OF:
        return _SINGULAR_OF[word]
    if len(word) < 4 or word in _SINGULARS:
        return word
    for prefix in PREFIXES:
        rest = word.removeprefix(prefix)
        if rest != word and (rest in _SINGULAR_OF or rest in _SINGULARS):
            return prefix + _SINGULAR_OF.get(rest, rest)
    return word if word.endswith("ics") else _without_plural(word)


def _without_plural(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


# ---------------------------------------------------------------- names as ids

_ACCENT = re.compile(r"""\\(?:[`'^"~=.]|[uvHcdbkrt](?![A-Za-z]))\s*""")


_COMMAND = re.compile(r"\\([A-Za-z]+)\*?\s*")
_FOLDED = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i", "ħ": "h"}
    | dict.fromkeys("'’‘ʼ`´{}$", "")
)
# commands of LaTeX that stand for letters
_LETTERS = {letter: letter for letter in _words("ss o l ae oe i j th")} | {"aa": "a", "dh": "d"}
_FORMAT = _words(
    """emph text textit textbf textrm textsf texttt textsc textnormal textup textsl underline mbox hbox ensuremath
    it bf rm sf tt sc em sl cal frak mathbb mathcal mathfrak mathrm mathbf mathit mathsf mathtt mathscr mathop
    boldsymbol bm pmb operatorname left right big Big bigl bigr displaystyle textstyle limits nolimits math
    quad qquad hat widehat tilde widetilde bar overline vec dot ddot breve check acute grave"""
)
_GREEK = re.compile(r"[α-ω]")


def slug(name: str) -> str:
    """A name as an id: small letters, digits and hyphens; `Erd\\H{o}s's $\\alpha$-Lemma` is `erdoss-alpha-lemma`.

    Accents are folded, LaTeX formatting is removed, other commands become words; letters of other scripts stay.
    A name without any letter or digit gets a hash. Different names can share a slug; a slug is its own slug.
    """
    text = _ACCENT.sub("", name.replace("\\-", "").replace("}{", "} {"))
    text = _COMMAND.sub(_command_as_word, text)
    for _ in range(2):  # small letters can have accents that capitals hide
        text = unicodedata.normalize("NFKD", text.casefold().translate(_FOLDED))
        text = "".join(letter for letter in text if unicodedata.category(letter) != "Mn")
    text = _GREEK.sub(lambda match: f" {unicodedata.name(match[0]).split()[-1].lower()} ", text)
    text = re.sub(r"[\W_]+", "-", unicodedata.normalize("NFC", text)).strip("-")
    return text or "x" + hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]


def _command_as_word(match: re.Match[str]) -> str:
    command = match[1]
    return "" if command in _FORMAT else _LETTERS.get(command.lower(), f" {command} ")
