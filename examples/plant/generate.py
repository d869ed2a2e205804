"""Shift logs of an invented chemical plant, with their true links and graded queries.

python examples/plant/generate.py OUT_FOLDER [--logs 3000] [--seed 7] [--plant 1]

Needs only the standard library. The same plant, seed and number of logs give the same bytes. Plants differ in sections,
equipment, codes, jargon and faults, and in which of the phrases below their people use.

Phrases are patterns: `[a|b]` is a choice (choices nest), `{e}` the equipment in one of its spellings,
`{v}` a measured value during the fault, `{g}` a normal value, `{t}` a time of day, `{o}` the number of an order, `{n}` a small number, `{d}` a day of the week.
"""

# ruff: noqa: E501 - one pattern per line, however long

from __future__ import annotations

import argparse
import csv
import datetime
import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

Phrases = dict[str, list[str]]  # part of a log: its patterns


def phrases(text: str) -> Phrases:
    """Patterns by the letter before them, one per line."""
    parts: Phrases = defaultdict(list)
    for line in text.strip().splitlines():
        part, pattern = line.strip().split(": ", 1)
        parts[part].append(pattern)
    return dict(parts)


# ---------------------------------------------------------------- the plant

SECTIONS = {  # id: German, English, and how a query calls it in either language
    "REAK": ("Reaktionsbetrieb", "reaction section", "im Reaktionsteil", "in the reaction area"),
    "DEST": ("Destillation", "distillation", "in der Destille", "in the distillation area"),
    "LRG": ("Lösungsmittelrückgewinnung", "solvent recovery", "in der Rückgewinnung", "at solvent recovery"),
    "KOMP": ("Verdichterstation", "compressor house", "in der Verdichterhalle", "in the compressor hall"),
    "KUEW": ("Kühlwasserversorgung", "cooling water supply", "im Rückkühlwerk", "on the recooling plant"),
    "ABWA": ("Abwasseranlage", "waste water treatment", "in der Kläranlage", "at the effluent plant"),
    "TANK": ("Tanklager", "tank farm", "im Tanklager", "in the tank farm"),
    "VERL": ("Verladung", "loading station", "an der Verladung", "at the loading bays"),
    "ENER": ("Dampf und Energie", "steam and utilities", "im Kesselhaus", "in the boiler house"),
    "ABLU": ("Abluftreinigung", "vent gas treatment", "in der Abluftreinigung", "in exhaust cleaning"),
}

WORDS = {  # kind of equipment: how German and English logs call it
    "P": ("Pumpe Pu Pu.", "pump pmp"),
    "W": ("Wärmetauscher WT Wärmeübertrager", "exchanger HX cooler"),
    "V": ("Ventil Schieber Regelventil", "valve vlv"),
    "G": ("Gebläse Lüfter Ventilator", "fan blower"),
    "RW": ("Rührwerk Rührer", "agitator stirrer"),
    "F": ("Filter", "filter"),
    "LI": ("Standmessung Niveau LT", "level LT"),
    "TI": ("Temperaturmessung Temp. TT", "temp TT"),
    "SV": ("Sicherheitsventil SiV", "PSV relief"),
    "VP": ("Vakuumpumpe Vak.-Pumpe VakPu", "vacuum-pump vac-pump"),
    "KA": ("Kondensatableiter KA Ableiter", "trap steam-trap"),
    "GD": ("Gaswarner GWA Gasmelder", "gas-detector GD"),
    "BH": ("Begleitheizung BHZ", "tracing heat-tracing"),
    "B": ("Behälter Beh. Vorlage", "vessel drum"),
    "K": ("Kolonne Kol.", "column col"),
    "R": ("Reaktor Kessel", "reactor"),
    "C": ("Verdichter Kompressor", "compressor comp"),
    "KT": ("Kühlturm KT", "tower cooling-tower"),
    "BB": ("Becken", "basin"),
    "T": ("Tank", "tank tk"),
    "FS": ("Füllstelle Spur", "bay loading-bay"),
    "DK": ("Dampfkessel Kessel", "boiler"),
    "TN": ("TNV Brennkammer", "oxidiser TO"),
    "WA": ("Wäscher", "scrubber"),
}

COLUMN = """P Zulaufpumpe|feed pump; P Rücklaufpumpe|reflux pump; P Sumpfpumpe|bottoms pump
W Kopfkondensator|overhead condenser; W Umlaufverdampfer|reboiler; V Rücklaufventil|reflux valve
V Heizdampfventil|heating steam valve; LI Sumpfstand|sump level; TI Kopftemperatur|head temperature
VP Vakuumpumpe|vacuum pump; KA Kondensatableiter|steam trap; B Destillatvorlage|distillate receiver"""
REACTOR = """RW Rührwerk|agitator; P Dosierpumpe|dosing pump; P Umwälzpumpe|circulation pump
W Mantelkühler|jacket cooler; V Dosierventil|dosing valve; V Bodenablassventil|bottom outlet valve
TI Innentemperatur|inner temperature; LI Füllstand|level; SV Sicherheitsventil|relief valve"""
EQUIPMENT = {  # kind of a unit: German and English name, and its parts
    "R": ("Rührkesselreaktor", "stirred reactor", REACTOR),
    "K": ("Rektifikationskolonne", "rectification column", COLUMN),
    "B": (
        "Sammelbehälter",
        "collecting vessel",
        """P Förderpumpe|transfer pump; P Umpumpe|recirculation pump; LI Füllstand|level
        F Beutelfilter|bag filter; W Nachkühler|aftercooler; V Ablassventil|drain valve; RW Rührer|stirrer""",
    ),
    "C": (
        "Kreiselverdichter",
        "turbo compressor",
        """P Ölpumpe|oil pump; W Zwischenkühler|intercooler; F Ansaugfilter|suction filter
        SV Sicherheitsventil|relief valve; TI Lagertemperatur|bearing temperature; GD Gasmelder|gas detector
        V Pumpschutzventil|bypass valve""",
    ),
    "KT": (
        "Kühlturm",
        "cooling tower",
        """P Kühlwasserpumpe|cooling water pump; P Reservepumpe|standby pump; G Lüfter Ost|fan east
        G Lüfter West|fan west; V Abschlämmventil|blowdown valve; F Sandfilter|sand filter
        LI Tassenstand|basin level; W Plattenkühler|plate cooler""",
    ),
    "BB": (
        "Abwasserbecken",
        "waste water basin",
        """P Hebepumpe|lift pump; P Schlammpumpe|sludge pump; G Belüftungsgebläse|aeration blower
        V Zulaufschieber|inlet gate valve; LI Beckenstand|basin level; RW Rührwerk|mixer
        P Laugedosierpumpe|caustic dosing pump""",
    ),
    "T": (
        "Lagertank",
        "storage tank",
        """P Tankpumpe|tank pump; LI Radarstand|radar level; V Bodenventil|foot valve
        SV Über-/Unterdruckventil|breather valve; BH Begleitheizung|heat tracing; TI Tanktemperatur|tank temperature""",
    ),
    "FS": (
        "TKW-Füllstelle",
        "truck loading bay",
        """P Verladepumpe|loading pump; V Füllventil|filling valve; GD Gaswarnkopf|gas detector
        BH Begleitheizung|heat tracing; F Produktfilter|product filter; TI Füllarmtemperatur|arm temperature""",
    ),
    "DK": (
        "Dampfkessel",
        "steam boiler",
        """P Speisewasserpumpe 1|feed water pump 1; P Speisewasserpumpe 2|feed water pump 2
        V Speisewasserventil|feed water valve; KA Leitungsentwässerung|line drain trap; G Brennergebläse|burner fan
        KA Verteilerentwässerung|header trap; LI Trommelstand|drum level; SV Sicherheitsventil|relief valve""",
    ),
    "TN": (
        "Thermische Nachverbrennung",
        "thermal oxidiser",
        """G Abluftgebläse|vent gas fan; V Abluftklappe|vent damper; TI Brennkammertemperatur|chamber temperature
        F Tropfenabscheider|mist filter; GD Gaswarnkopf|gas detector""",
    ),
    "WA": (
        "Abluftwäscher",
        "vent scrubber",
        """P Waschpumpe|scrubber pump; G Abluftventilator|vent fan; LI Sumpfstand|sump level
        V Laugeventil|caustic valve; F Demister|demister""",
    ),
}
UNITS = {
    "REAK": "R101 R102 R103 R104",
    "DEST": "K201 K202 K203",
    "LRG": "K301 K302 B310 B311",
    "KOMP": "C401 C402 C403",
    "KUEW": "KT501 KT502 KT503",
    "ABWA": "BB601 BB602 BB603",
    "TANK": "T701 T702 T703 T704 T705 T706",
    "VERL": "FS801 FS802 FS803 FS804",
    "ENER": "DK901 DK902",
    "ABLU": "TN951 WA952 WA953",
}
DRIVEN = {"P", "G", "RW", "VP"}  # equipment with a motor, one level below


@dataclass(frozen=True)
class Place:
    """A functional location."""

    id: str
    parent: str
    kind: str  # of equipment; "" for the plant and its sections
    number: str  # as in P203
    german: str
    english: str
    letters: str  # of its code: those of its kind, unless the plant has its own

    @property
    def section(self) -> str:
        return self.id.split("-")[1] if "-" in self.id else ""

    @property
    def unit(self) -> str:
        return "-".join(self.id.split("-")[:3])


def build_plant(site: Site) -> list[Place]:
    """All locations, parents first. `PL1-DEST-K201-P3` is the third pump of K201; its plate says P203."""
    root = f"PL{site.number}"
    places = [Place(root, "", "", "", f"Werk {site.number} {site.german}", f"site {site.number} {site.english}", "")]
    for hundred, (section, (german, english, _, _)) in enumerate(site.sections.items(), 1):
        places.append(Place(f"{root}-{section}", root, "", "", german, english, ""))
        plates: Counter[str] = Counter()
        for kind, number, parts in site.units[section]:
            name, called, _ = EQUIPMENT[kind]
            letters = site.letters.get(kind, kind)
            top = Place(f"{root}-{section}-{letters}{number}", f"{root}-{section}", kind, number, name, called, letters)
            places.append(top)
            inside: Counter[str] = Counter()
            for part, german_name, english_name in parts:
                letters = site.letters.get(part, part)
                plates[part] += 1
                inside[part] += 1
                plate = str(hundred * site.hundred + plates[part])
                code = f"{top.id}-{letters}{inside[part]}"
                places.append(Place(code, top.id, part, plate, german_name, english_name, letters))
                if part in DRIVEN:
                    places.append(Place(f"{code}-M1", code, "M", plate, "Antriebsmotor", "drive motor", "M"))
    return places


# ---------------------------------------------------------------- what goes wrong


@dataclass(frozen=True)
class Fault:
    """A kind of incident: s short, d detected, c cause, m measure, f follow-up, z closed, q query."""

    name: str
    kinds: tuple[str, ...]  # of equipment
    unit: str  # of the measured value
    bad: tuple[float, float, int]  # lowest, highest, digits
    good: tuple[float, float, int]
    de: Phrases
    en: Phrases
    motor: bool = False  # reported about the motor, if there is one


FAULTS = (
    Fault(
        "cavitation",
        ("P",),
        "bar",
        (0.1, 1.1, 1),
        (2.2, 3.9, 1),
        phrases("""
            s: {e} kavitiert
            s: {e} prasselt, Saugdruck {v}
            s: [Kiesgeräusch|Rattern] {e}
            d: {e} [hört sich an, als ob Kies drin ist|rattert und prasselt|klingt nach Schotter], Druck [schwankt|zappelt]
            d: [deutliche|starke|leichte] Kavitation an {e}, [Saugdruck|Zulaufdruck] nur [noch|] {v}
            d: {e} [fördert unruhig|bringt ihre Menge nicht], [knatternde|prasselnde] Geräusche aus dem Gehäuse
            d: Druckanzeige hinter {e} [pendelt|springt] um {v}, [Geräusch wie Murmeln|Laufgeräusch hart]
            c: [Vorlage war fast leer|Stand im Vorlagebehälter zu tief|Zulauf zu warm|Saugschieber nur halb offen]
            c: [Vermutung|evtl.|wahrscheinlich]: [Luft gezogen|Saugleitung nicht entlüftet|NPSH zu knapp bei der Temp.]
            m: [Drehzahl runter|Menge gedrosselt|Druckseitig angedrosselt], [danach ruhiger|Geräusch etwas weniger]
            m: {e} [abgestellt und entlüftet|neu angefahren nach Entlüften], [Saugschieber ganz auf|Vorlage aufgefüllt]
            m: Vorlage auf {n}0 % [hochgefahren|nachgefüllt], Saugdruck [jetzt|nun] {g}
            f: {e} [knistert noch leicht|bei Volllast wieder Prasseln|läuft mit reduzierter Menge ruhig]
            f: Saugdruck [alle 2 h notiert|beobachtet], [zuletzt|aktuell] {g}
            z: {e} [läuft wieder ruhig|ohne Geräusch], Saugdruck {g}
            z: [Laufrad kontrolliert, nur leichte Narben|Saugleitung isoliert und Vorlagestand höher eingestellt], {e} i. B.
            q: Dampfblasen im Ansaugbereich einer Kreiselpumpe {place}
        """),
        phrases("""
            s: {e} cavitating
            s: [gravel|rattling] noise {e}
            s: {e} suction only {v}
            d: {e} [sounds like it is full of gravel|is rattling badly|crackles], [discharge pressure hunting|flow unsteady]
            d: [Clear|Slight|Heavy] cavitation on {e}, suction [pressure down to|reads only] {v}
            d: {e} [does not make its flow|struggles to deliver], [popping|crackling] sound from the casing
            d: Gauge downstream of {e} [swings|jumps] around {v}, [marbles-like noise|rough running sound]
            c: [Feed drum nearly empty|Level in feed drum too low|Liquid too warm|Suction valve half shut]
            c: [Probably|Suspect|Maybe] [air drawn in|suction line not vented|NPSH too tight at this temperature]
            m: [Throttled the discharge|Cut the speed|Reduced flow], [quieter since|some improvement]
            m: [Stopped and vented {e}|Vented {e} and restarted], [suction valve fully opened|drum topped up]
            m: Raised drum level to {n}0 %, suction [now|back at] {g}
            f: {e} [still crackles a bit|noisy again at full load|quiet at reduced flow]
            f: Suction pressure [logged every 2 h|under watch], [last|currently] {g}
            z: {e} [runs smooth again|no more noise], suction {g}
            z: [Impeller inspected, light pitting only|Low level setpoint raised on the drum], {e} back in service
            q: vapour bubbles at the inlet of centrifugal pumps {place}
        """),
    ),
    Fault(
        "seal",
        ("P",),
        "Tropfen/min",
        (12, 90, 0),
        (0, 2, 0),
        phrases("""
            s: GLRD {e} leckt
            s: {e} tropft an Welle
            s: {e} undicht, {v}
            d: {e} [tropft|suppt|nässt] an der [Gleitringdichtung|GLRD|Wellendurchführung], ca. {v}
            d: [Pfütze|Lache|Produkt] unter {e}, [kommt aus der GLRD|Wellendichtung sifft]
            d: Sperrflüssigkeit an {e} [fällt ständig|muss dauernd nachgefüllt werden], [GLRD hinüber?|Dichtung verdächtig]
            d: [Geruch nach Lösungsmittel|Lösungsmittel auf dem Boden] bei {e}, Gleitring [undicht|durch]
            c: [Gleitring eingelaufen|O-Ring aufgequollen|Feder der GLRD gebrochen|Dichtung trocken gelaufen]
            c: Standzeit der [Dichtung|GLRD] war [rum|mit {n} Monaten kurz]
            m: [Auf Reserve umgestellt|Umgeschaltet auf B-Pumpe], {e} [abgeschiebert|entleert und gespült|freigeschaltet]
            m: [Wanne untergestellt|Bindemittel gestreut|Eimer drunter], [Schlosser kommt {d}|Reparatur {d} geplant]
            m: [Schlosser haben GLRD gewechselt|Neue Cartridge eingebaut|Dichtung raus, neue rein], Auftrag {o}
            f: Leckage an {e} [gleich geblieben|etwas mehr|leicht zurück], {v}
            f: [Wanne unter {e} geleert|Sperrdruck nachgestellt], [hält noch|weiter beobachten]
            z: {e} [nach Dichtungswechsel trocken|Probelauf dicht], [wieder verfügbar|wieder Reserve]
            z: [Keine Leckage mehr an {e}|GLRD {e} dicht, {g}], [Stelle gereinigt|Wanne weg]
            q: Welle einer Förderpumpe {place} verliert Flüssigkeit, Austausch der Abdichtung
        """),
        phrases("""
            s: {e} seal leak
            s: {e} dripping at shaft
            s: mech seal {e} gone
            d: {e} [drips|weeps|leaks] at the [mechanical seal|mech seal|gland], about {v}
            d: [Puddle|Product|Wet floor] under {e}, [coming from the seal|shaft seal leaking]
            d: Barrier fluid on {e} [keeps dropping|needs topping up all the time], [seal gone?|seal suspect]
            d: [Smell of solvent|Solvent on the floor] near {e}, mech seal [leaking|failed]
            c: [Seal faces worn|O-ring swollen|Seal spring broken|Seal ran dry]
            c: Seal [life was over|only lasted {n} months]
            m: [Swapped to standby|Changed over to the spare], {e} [isolated|drained and flushed|locked out]
            m: [Tray placed below|Absorbent spread|Bucket underneath], [fitter due {d}|repair planned {d}]
            m: [Fitters replaced the seal|New cartridge fitted|Old seal out, new one in], WO {o}
            f: Leak rate on {e} [unchanged|a bit worse|slightly down], {v}
            f: [Drip tray under {e} emptied|Barrier pressure readjusted], [holding|keep watching]
            z: {e} [dry after seal change|test run tight], [available again|back as standby]
            z: [No more dripping at {e}|{e} seal tight, {g}], [area cleaned|tray removed]
            q: liquid escaping where the rotating shaft leaves the casing, {place}
        """),
    ),
    Fault(
        "bearing",
        ("P", "G"),
        "mm/s",
        (6.2, 14.8, 1),
        (1.1, 2.8, 1),
        phrases("""
            s: {e} läuft unrund
            s: Lager {e} heiß
            s: {e} vibriert, {v}
            d: {e} läuft [unrund|unruhig|rau], [Schwingung|Vibration] {v}
            d: Lager [A-Seite|B-Seite|Antriebsseite] an {e} [pfeift|mahlt|heult], [handwarm bis heiß|nicht mehr anzufassen]
            d: [Schwingungsalarm|Vibrationsalarm] {e} [gekommen|angestanden], [vor Ort spürbar|Fundament zittert], {v}
            d: {e} [singt|macht Mahlgeräusche|brummt] [seit heute Nacht|seit Anfahren|zunehmend], [Lager?|Lagerschaden?]
            c: [Wälzlager verschlissen|Käfig gebrochen|Kupplung nicht ausgerichtet|Fett verharzt|Laufrad hat Unwucht]
            c: [Schmierung vergessen|Nachschmierintervall überzogen|Kugeln haben Ausbrüche]
            m: [Lager nachgeschmiert|Fett nachgepresst], [Geräusch besser|bringt nichts]
            m: {e} [außer Betrieb genommen|stillgesetzt], [Lagersatz bestellt|Werkstatt baut aus], Auftrag {o}
            m: [Lager beidseitig erneuert|Neue Lager drin|Kupplung laser-ausgerichtet und Lager neu]
            f: {e} [Schwingung|Messwert] {v}, [Tendenz steigend|unverändert|leicht gefallen]
            f: [Temperatur am Lagerbock {e} mit Pistole gemessen|Lager {e} abgehört], [noch fahrbar|bitte mitverfolgen]
            z: {e} [nach Lagertausch|mit neuen Lagern] [ruhig|leise], {g}
            z: [Probelauf {e} i.O.|Schwingungsmessung {e} gut], {g}, [Freigabe erteilt|übergeben]
            q: mechanische Schwingungen und Wälzlagerverschleiß an rotierender Maschine {place}
        """),
        phrases("""
            s: {e} vibrating
            s: {e} bearing hot
            s: {e} rough, {v}
            d: {e} runs [rough|unbalanced|uneven], [vibration|velocity] {v}
            d: [DE|NDE|Inboard] bearing on {e} [whines|grinds|howls], [too hot to touch|getting warm]
            d: Vibration alarm {e} [came in|standing], [base shakes|can be felt in the floor], {v}
            d: {e} [hums|makes a grinding noise|squeals] [since last night|since start-up|more and more], [bearing?|bearing going]
            c: [Rolling bearing worn|Cage broken|Coupling misaligned|Grease hardened|Wheel out of balance]
            c: [Greasing was missed|Regreasing interval overdue|Balls show pitting]
            m: [Regreased|Pumped in fresh grease], [sounds better|no effect]
            m: {e} [taken out of service|shut down], [bearing set ordered|workshop pulls it], WO {o}
            m: [Both bearings renewed|New bearings fitted|Coupling laser aligned and bearings changed]
            f: {e} [vibration|reading] {v}, [trend up|unchanged|slightly down]
            f: [Bearing housing {e} checked with the temp gun|Listened to {e} with the stick], [can run on|please follow up]
            z: {e} [quiet with new bearings|smooth after bearing change], {g}
            z: [Test run {e} ok|Vibration check {e} good], {g}, [released|handed over]
            q: excessive mechanical oscillation of rotating machinery {place}
        """),
    ),
    Fault(
        "motor_trip",
        ("P", "G", "RW"),
        "A",
        (38, 96, 0),
        (14, 27, 0),
        phrases("""
            s: {e} ausgefallen
            s: Motor {e} Überstrom
            s: {e} Motorschutz gefallen
            d: {e} [um {t}|plötzlich|in der Nacht] [ausgefallen|rausgeflogen|weg], [Motorschutz|Überstrom] hat ausgelöst
            d: Stromaufnahme {e} [hoch|steigt auf] {v}, dann [Trip|Abschaltung]
            d: {e} [lässt sich nicht starten|springt nicht an|fällt beim Anlauf sofort wieder], [Störung Antrieb|Meldung MCC]
            d: [Thermo|Bimetall|Kaltleiter] Motor {e} [ausgelöst|angesprochen], [Motor sehr warm|Klemmkasten riecht verschmort]
            c: [Phase hat gefehlt|Wicklung hat Masseschluss|Lüfterhaube zu|Produkt zu zäh|Schütz verbrannt]
            c: [Isomessung schlecht|Iso-Wert unter 1 MOhm|Überlast durch Verstopfung]
            m: [Elektriker hat quittiert|Störung quittiert und neu gestartet], [hält erst mal|Strom {g}]
            m: [Betriebselektriker misst Wicklung|E-Technik tauscht Schütz|Motor abgeklemmt und ausgebaut], Auftrag {o}
            m: [Auf Reserveantrieb gewechselt|Ersatzmotor vom Lager geholt und angebaut], [Drehrichtung geprüft|Drehfeld i.O.]
            f: {e} Strom {v}, [auf Beobachtung|bitte stündlich ablesen]
            f: {e} [seit Quittieren ohne Ausfall|nochmal gefallen um {t}], [E-Werkstatt weiß Bescheid|Motor bleibt warm]
            z: {e} [mit neuem Motor|nach Reparatur] in Betrieb, Strom {g}
            z: [Antrieb {e} wieder verfügbar|Motor {e} läuft stabil], [Schutz auf {g} eingestellt|Thermo ruhig]
            q: Antriebe, die wegen zu hoher Amperezahl abgeschaltet haben {place}
        """),
        phrases("""
            s: {e} tripped
            s: {e} motor overload
            s: {e} won't start
            d: {e} [tripped at {t}|dropped out suddenly|went down overnight], [overload relay|motor protection] operated
            d: Current on {e} [high|climbing to] {v}, then [trip|shutdown]
            d: {e} [does not start|fails on start|drops out right after start], [drive fault|MCC alarm]
            d: [Thermal relay|Thermistor|Overload] of {e} motor [operated|picked up], [motor very hot|terminal box smells burnt]
            c: [One phase missing|Winding to earth|Fan cowl blocked|Product too thick|Contactor burnt]
            c: [Insulation reading poor|Megger below 1 MOhm|Overloaded by a blockage]
            m: [Electrician reset it|Reset and restarted], [holding so far|drawing {g}]
            m: [Sparky is testing the winding|Contactor being changed|Motor disconnected and pulled], WO {o}
            m: [Changed to the standby drive|Spare motor from stores fitted], [rotation checked|phase sequence ok]
            f: {e} current {v}, [under observation|please read hourly]
            f: {e} [no trip since reset|tripped once more at {t}], [electrical shop informed|motor stays warm]
            z: {e} running [with new motor|after repair], current {g}
            z: [Drive {e} available|Motor {e} stable], [protection set to {g}|thermal quiet]
            q: drives that cut out because of too many amps {place}
        """),
        motor=True,
    ),
    Fault(
        "strainer",
        ("P",),
        "m³/h",
        (2.1, 6.9, 1),
        (14.0, 22.0, 1),
        phrases("""
            s: Saugsieb {e} dicht
            s: {e} fördert nix
            s: {e} Menge nur {v}
            d: {e} [bringt keinen Druck|fördert kaum|baut nicht auf], Menge [nur noch|auf] {v}
            d: Durchfluss hinter {e} [bricht ein|fällt seit Stunden], [Sieb zu?|Saugsieb verdächtig]
            d: [Saugkorb|Schmutzfänger|Saugsieb] vor {e} [setzt sich zu|verlegt|voll], Menge {v}
            d: {e} [läuft leer mit|dreht, aber kommt nichts|zieht nicht an], [Sieb kontrollieren|Verstopfung vermutet]
            c: [Polymerkrümel|Rost und Zunder|Packungsbruch|Kristalle|Lappenreste] im Sieb
            c: [nach Umbau nicht gespült|kommt aus dem Tankboden|Feststoff vom letzten Ansatz]
            m: Sieb {e} [gezogen und gereinigt|ausgebaut, gespült, wieder rein], [halber Eimer Dreck|stark belegt]
            m: [Rückgespült|Saugleitung mit N2 freigeblasen|Leitung heiß gespült], Menge {g}
            m: [Umgestellt auf Parallelpumpe|Ersatzsieb eingesetzt], [Siebreinigung läuft|altes Sieb in Wäsche]
            f: Menge {e} [hält sich bei|langsam fallend, jetzt] {g}
            f: Sieb {e} [bitte jede Schicht prüfen|morgen nochmal ziehen], [setzt sich wieder langsam zu|bisher sauber]
            z: {e} [fördert wieder voll|Menge normal], {g}
            z: [Sieb {e} zweimal sauber gezogen|Quelle der Krümel gefunden und weg], [Fall zu|erledigt]
            q: Fremdkörper in der Ansaugung, Förderstrom eingebrochen {place}
        """),
        phrases("""
            s: {e} strainer blocked
            s: {e} no flow
            s: {e} only {v}
            d: {e} [makes no pressure|hardly delivers|does not build up], flow [down to|only] {v}
            d: Flow after {e} [collapsing|dropping for hours], [strainer?|suspect strainer]
            d: [Suction strainer|Strainer basket|Dirt trap] ahead of {e} [plugging|choked|full], flow {v}
            d: {e} [turns but nothing comes|does not pull|runs empty], [check basket|blockage assumed]
            c: [Polymer crumbs|Rust and scale|Broken packing|Crystals|Rag remains] in the basket
            c: [line not flushed after the job|comes off the tank bottom|solids from the last batch]
            m: Strainer {e} [pulled and cleaned|out, washed, back in], [half a bucket of dirt|heavily coated]
            m: [Backflushed|Suction line blown with N2|Line hot flushed], flow {g}
            m: [Changed to parallel pump|Spare basket put in], [cleaning ongoing|old basket in the wash]
            f: Flow {e} [steady at|slowly falling, now] {g}
            f: Basket {e} [check each shift please|pull again tomorrow], [slowly loading again|clean so far]
            z: {e} [full flow again|delivers normally], {g}
            z: [Basket {e} clean twice in a row|Source of crumbs found and removed], [closed|done]
            q: debris restricting the inlet so throughput collapsed {place}
        """),
    ),
    Fault(
        "fouling",
        ("W",),
        "K",
        (2.1, 5.9, 1),
        (11.0, 17.5, 1),
        phrases("""
            s: {e} zu, Fouling
            s: {e} kühlt schlecht
            s: {e} nur {v} Spreizung
            d: {e} [bringt keine Leistung|kühlt nicht mehr richtig|überträgt schlecht], Spreizung [nur|noch] {v}
            d: Austritt {e} [zu warm|steigt], [Ventil schon ganz auf|KW voll offen], dT {v}
            d: [Belag|Verschmutzung|Fouling] in {e} [wird mehr|vermutet], Druckverlust [hoch|gestiegen]
            d: {e} [Wärmeübergang im Keller|schafft die Last nicht], [seit Tagen schlechter|heute auffällig], {v}
            c: [Kalk|Algenschleim|Salzkruste|Teerbelag|Schlamm] [auf der Wasserseite|in den Rohren|zwischen den Platten]
            c: [zu wenig Strömung im Sommer|Impfung ausgefallen|letzte Reinigung lange her]
            m: {e} [chemisch gereinigt|mit Säure gespült|gebürstet], [viel Dreck raus|Wasser braun]
            m: [Rückspülung gefahren|Wasserseite rückgespült|Strömung umgekehrt], Spreizung {g}
            m: [Last auf {n}0 % zurückgenommen|Menge reduziert], [Hochdruckreinigung {d}|Reinigungsfirma bestellt]
            f: {e} dT {v}, [weiter fallend|stabil], [Reinigung steht noch aus|Termin {d}]
            f: {e} [Trend aufgenommen|Eintritt/Austritt notiert], [noch ausreichend|Reserve klein]
            z: {e} nach Reinigung [wieder volle Leistung|wie neu], {g}
            z: [Spreizung {e} normal, {g}|{e} sauber, Druckverlust normal], [Firma ist abgezogen|Deckel zu, dicht]
            q: Ablagerungen verringern die Wärmeübertragung am Apparat {place}
        """),
        phrases("""
            s: {e} fouled
            s: {e} poor cooling
            s: {e} only {v} dT
            d: {e} [lost duty|no longer cools properly|transfers badly], delta T [only|down to] {v}
            d: Outlet of {e} [too warm|rising], [valve wide open already|CW fully open], dT {v}
            d: [Deposits|Dirt|Fouling] in {e} [building up|suspected], pressure drop [high|increased]
            d: {e} [can not carry the load|heat transfer very poor], [worse for days|noticed today], {v}
            c: [Scale|Algae slime|Salt crust|Tar|Sludge] [on the water side|in the tubes|between the plates]
            c: [velocity too low in summer|dosing was off|last cleaning long ago]
            m: {e} [chemically cleaned|flushed with acid|brushed], [lots of dirt|water came out brown]
            m: [Backflush done|Water side backflushed|Flow reversed], delta T {g}
            m: [Load cut to {n}0 %|Throughput reduced], [jetting {d}|cleaning contractor called]
            f: {e} dT {v}, [still falling|stable], [cleaning pending|slot on {d}]
            f: {e} [trend recorded|in/out temps noted], [still enough|little margin]
            z: {e} after cleaning [full duty again|like new], {g}
            z: [dT {e} normal, {g}|{e} clean, pressure drop normal], [contractor gone|cover closed and tight]
            q: deposits reduce thermal performance of the apparatus {place}
        """),
    ),
    Fault(
        "tube_leak",
        ("W",),
        "mg/l",
        (18, 240, 0),
        (0.2, 1.5, 1),
        phrases("""
            s: {e} Rohrriss?
            s: {e} innen undicht
            s: Produkt im KW, {e}
            d: [Produkt|Lösungsmittel|Kohlenwasserstoff] im Kühlwasser [hinter|nach] {e}, TOC {v}
            d: {e} [vermutlich innen durch|Rohr gerissen?|interne Leckage], [Wasser im Produkt|Produkt im Wasser]
            d: [Leitfähigkeit|TOC] im Rücklauf {e} [springt|steigt] auf {v}, [Schaum im Kühlturm|Geruch am Rücklauf]
            d: Wassergehalt im Destillat [plötzlich hoch|erhöht], [{e} im Verdacht|kommt wohl über {e}]
            c: [Lochfraß an {n} Rohren|Rohr am Boden abgerissen|Spannungsriss in der Einwalzung]
            c: [Korrosion unter Belag|Erosion am Eintritt|Vibration der Rohre]
            m: {e} [abgeschiebert|wasserseitig abgesperrt], [Bypass auf|Anlage auf Teillast]
            m: [Druckprobe mit N2|Lecktest], [{n} Rohre undicht|Blasen an {n} Rohren], [verstopft|mit Stopfen gesetzt]
            m: [Kühlwasser umgeleitet in Abwasser|Rücklauf in den Kanal gestellt], Labor [zieht stündlich|untersucht Proben]
            f: TOC nach {e} [fällt|steht bei] {v}, [Proben laufen weiter|Labor meldet sich]
            f: {e} [bleibt zu bis Druckprobe|Bündel wird {d} gezogen], [Ersatzbündel da|Bündel ist bestellt]
            z: {e} [Rohre gestopft|neues Bündel], Druckprobe [bestanden|dicht], TOC {g}
            z: [Kühlwasser wieder sauber, {g}|kein Produkt mehr im Wasser], {e} [geht ans Netz|wieder zugeschaltet]
            q: Vermischung von Prozessmedium mit Wasserseite durch defekten Apparat {place}
        """),
        phrases("""
            s: {e} tube leak?
            s: {e} leaking internally
            s: product in CW, {e}
            d: [Product|Solvent|Hydrocarbon] in the cooling water [after|downstream of] {e}, TOC {v}
            d: {e} [probably leaking inside|tube burst?|internal leak], [water in product|product in water]
            d: [Conductivity|TOC] in the return of {e} [jumps|climbs] to {v}, [foam in the tower|smell at the return]
            d: Water in distillate [suddenly high|up], [{e} suspected|most likely through {e}]
            c: [Pitting on {n} tubes|Tube torn off at the sheet|Stress crack at the rolled joint]
            c: [under-deposit corrosion|inlet erosion|tubes vibrating]
            m: {e} [isolated|blocked in on the water side], [bypass open|plant at part load]
            m: [N2 pressure test|Leak test], [{n} tubes bad|bubbles on {n} tubes], [plugged|plugs set]
            m: [Return water sent to effluent|CW diverted to the sewer], lab [samples hourly|is checking]
            f: TOC after {e} [falling|standing at] {v}, [sampling goes on|lab will call]
            f: {e} [stays shut until the test|bundle to be pulled {d}], [spare bundle on site|bundle ordered]
            z: {e} [tubes plugged|new bundle], pressure test [passed|tight], TOC {g}
            z: [Cooling water clean again, {g}|No product in the water any more], {e} [on line|back in]
            q: process fluid crossing over into the utility side because of a perforated apparatus {place}
        """),
    ),
    Fault(
        "valve_sticks",
        ("V",),
        "%",
        (12, 68, 0),
        (0, 1, 0),
        phrases("""
            s: {e} klemmt
            s: Schieber {e} fest
            s: {e} hängt bei {v}
            d: {e} [klemmt|hängt|sitzt fest], [geht nicht weiter als {v}|bleibt bei {v} stehen]
            d: {e} [macht nicht zu|öffnet nicht], [Rückmeldung fehlt|Endlage kommt nicht], Stellung {v}
            d: [Schieber|Klappe|Armatur] {e} [nur mit Verlängerung zu bewegen|schwergängig|ruckelt]
            d: {e} [springt|bewegt sich ruckweise], [Haften und Rutschen|Losbrechen erst ab {v}]
            c: [Spindel trocken|Stopfbuchse zu fest angezogen|Auskristallisiertes im Sitz|Spindel krumm]
            c: [lange nicht bewegt|Produkt eingetrocknet|Fremdkörper im Gehäuse]
            m: {e} [gangbar gemacht|gängig gemacht|mehrfach durchgefahren], [Spindel gefettet|Kriechöl drauf]
            m: [Mit Handrad beigeholfen|Über Bypass gefahren|von Hand auf {n}0 % gestellt], [Schlosser {d}|IH kommt]
            m: [Stopfbuchse gelöst und neu verpackt|Armatur ausgebaut und Sitz gereinigt], Auftrag {o}
            f: {e} [geht noch schwer|hakt ab und zu|bewegt sich wieder], [Handrad bleibt dran|weiter mit Bypass]
            f: {e} [jede Schicht einmal bewegen|Hubtest steht an], [heute i.O.|heute zäh]
            z: {e} [leichtgängig|fährt ganz durch], [Endlagen kommen|Hub 0-100 % geprüft]
            z: [{e} getauscht|Neue Armatur {e}], [Funktionstest i.O.|Dichtheit geprüft], [Bypass zu|Normalbetrieb]
            q: schwergängige Absperrarmatur {place}, die ihre Endposition nicht erreicht
        """),
        phrases("""
            s: {e} stuck
            s: {e} jammed
            s: {e} hangs at {v}
            d: {e} [sticks|is jammed|is stuck], [will not go past {v}|stops at {v}]
            d: {e} [does not close|does not open], [no feedback|limit switch missing], position {v}
            d: [Gate valve|Butterfly|Valve] {e} [only moves with a bar|very stiff|jerks]
            d: {e} [jumps|moves in steps], [stick-slip|breaks loose only above {v}]
            c: [Stem dry|Gland too tight|Crystals in the seat|Stem bent]
            c: [not stroked for ages|product dried in|foreign body in the casing]
            m: {e} [freed|worked loose|stroked several times], [stem greased|penetrating oil applied]
            m: [Helped by handwheel|Ran on bypass|set to {n}0 % by hand], [fitter {d}|maintenance coming]
            m: [Gland loosened and repacked|Valve out, seat cleaned], WO {o}
            f: {e} [still stiff|catches now and then|moving again], [handwheel stays on|still on bypass]
            f: {e} [stroke once per shift|stroke test due], [fine today|tough today]
            z: {e} [moves freely|travels fully], [limits come in|stroke 0-100 % checked]
            z: [{e} replaced|New valve {e}], [function test ok|tightness checked], [bypass closed|normal operation]
            q: shut-off device hard to operate and not reaching its end position {place}
        """),
    ),
    Fault(
        "positioner",
        ("V",),
        "%",
        (14, 41, 0),
        (0.3, 1.4, 1),
        phrases("""
            s: Stellungsregler {e} defekt
            s: {e} regelt nicht
            s: {e} pendelt, {v}
            d: {e} [pendelt|schwingt|regelt sich tot], [Sollwert und Istwert|Soll/Ist] {v} auseinander
            d: [Stellungsregler|Positioner|Stellungsrückmeldung] {e} [spinnt|reagiert nicht|zeigt Fehler], Abweichung {v}
            d: {e} [fährt in Sicherheitsstellung|fällt zu], [Instrumentenluft|Steuerluft] [fehlt|bläst ab|zu wenig]
            d: Regelkreis um {e} [schwingt|kommt nicht zur Ruhe], [auf Hand genommen|Kaskade raus]
            c: [Membran gerissen|Luftschlauch ab|I/P-Umformer hin|Wasser in der Steuerluft|Stecker lose]
            c: [Parametrierung verstellt|Rückführhebel gelöst|Düse verschmutzt]
            m: [MSR hat neu initialisiert|Autotune gefahren|Positioner neu parametriert], Abweichung {g}
            m: [Luftanschluss abgedichtet|Schlauch neu|Druckminderer getauscht], {e} [reagiert wieder|fährt]
            m: {e} auf Hand [gestellt|genommen], [MSR informiert|PLT kommt {d}], Meldung {o}
            f: {e} [auf Hand bei {n}0 %|schwingt noch gelegentlich|mit neuen Parametern ruhig]
            f: [MSR braucht Ersatzgerät für {e}|Ersatzpositioner bestellt], [Fahrweise bleibt Hand|Geduld]
            z: {e} [regelt sauber|wieder Automatik], [Abweichung|Restabweichung] {g}
            z: [Neuer Stellungsregler auf {e}|{e} mit neuem I/P], [Kennlinie aufgenommen|Schleife geschlossen]
            q: Stellglied folgt dem Ausgang vom Regler nicht {place}
        """),
        phrases("""
            s: {e} positioner failed
            s: {e} hunting
            s: {e} off by {v}
            d: {e} [hunts|oscillates|cycles], [setpoint and position|SP/PV] {v} apart
            d: [Positioner|Position feedback] on {e} [acts up|does not respond|shows error], deviation {v}
            d: {e} [went to fail-safe|fell shut], [instrument air|control air] [missing|blowing off|low]
            d: Loop around {e} [swinging|does not settle], [put in manual|cascade off]
            c: [Diaphragm torn|Air tube off|I/P gone|Water in instrument air|Plug loose]
            c: [parameters lost|feedback arm loose|nozzle dirty]
            m: [Instrument tech re-initialised it|Autotune run|Positioner reconfigured], deviation {g}
            m: [Air fitting sealed|New tubing|Regulator swapped], {e} [responds|strokes again]
            m: {e} [in manual|taken to hand], [I&C informed|I&C coming {d}], notification {o}
            f: {e} [in manual at {n}0 %|still cycles at times|calm with new settings]
            f: [I&C needs a spare for {e}|Spare positioner ordered], [stay in manual|patience]
            z: {e} [controls well|back in auto], [deviation|offset] {g}
            z: [New positioner on {e}|{e} has a new I/P], [curve recorded|loop closed]
            q: final control element not following its command signal {place}
        """),
    ),
    Fault(
        "flange",
        ("W", "B", "F"),
        "Nm",
        (40, 75, 0),
        (90, 140, 0),
        phrases("""
            s: Flansch {e} tropft
            s: {e} Dichtung blasen
            s: {e} Flanschleckage
            d: [Flansch|Flanschverbindung|Deckel] an {e} [tropft|schwitzt|nass], [Isolierung feucht|Tropfen alle paar Sekunden]
            d: [Nebel|Dampffahne|feiner Strahl] am [Stutzen|Flansch] von {e}, [Dichtung durch?|sofort gemeldet]
            d: {e} [am Eintrittsflansch|am Austritt|am Mannloch] [undicht|leckt], [Schrauben lose|nur {v} drauf]
            d: [Bei Leckrunde|Mit Schnüffler] Stelle an {e} gefunden, [Flachdichtung|Dichtung] [sitzt schief|bläst]
            c: [Dichtung gealtert|falsche Dichtung drin|nach Aufheizen nicht nachgezogen|Dichtfläche riefig]
            c: [Temperaturwechsel|Druckstoß von gestern|Bolzen gelängt]
            m: [Schrauben über Kreuz nachgezogen|Nachgezogen mit {g}], [tropft weniger|dicht]
            m: {e} [drucklos gemacht und Dichtung gewechselt|entleert, Flachdichtung neu], Drehmoment {g}
            m: [Schelle gesetzt|Auffangwanne drunter, Bereich abgesperrt], [Wechsel erst bei Stillstand|Termin {d}]
            f: Flansch {e} [hält|leicht feucht|tropft wieder], [Wanne kontrolliert|Schelle sitzt]
            f: [Nach Aufheizen {e} nochmal geschaut|Kontrollgang {e}], [trocken|ein Tropfen pro min]
            z: {e} [Dichtung neu, trocken|Flansch dicht], [Schelle ab|Isolierung wieder dran]
            z: [Lecktest {e} mit Spray ohne Befund|Dichtheitsprüfung {e} bestanden], {g}
            q: Austritt an geschraubter Verbindung eines Apparats {place}
        """),
        phrases("""
            s: {e} flange drip
            s: {e} gasket blowing
            s: flange leak {e}
            d: [Flange|Flanged joint|Cover] on {e} [drips|sweats|wet], [insulation damp|a drop every few seconds]
            d: [Mist|Steam plume|Fine jet] at the [nozzle|flange] of {e}, [gasket gone?|reported at once]
            d: {e} [inlet flange|outlet|manhole] [leaking|not tight], [bolts loose|only {v} on them]
            d: [On leak round|With the sniffer] found a spot on {e}, gasket [sits askew|blows]
            c: [Gasket aged|wrong gasket fitted|not retorqued after heating|face scored]
            c: [temperature swings|yesterday's pressure surge|bolts stretched]
            m: [Bolts pulled crosswise|Retorqued to {g}], [drips less|tight]
            m: {e} [depressured and gasket changed|drained, new gasket], torque {g}
            m: [Clamp fitted|Tray below, area roped off], [change at shutdown only|planned {d}]
            f: Flange {e} [holding|slightly damp|drips again], [tray checked|clamp sits well]
            f: [Looked at {e} after warm-up|Walked by {e}], [dry|one drop a minute]
            z: {e} [new gasket, dry|flange tight], [clamp off|insulation back on]
            z: [Spray test {e} without finding|Tightness test {e} passed], {g}
            q: loss of containment at bolted connections {place}
        """),
    ),
    Fault(
        "level_wrong",
        ("LI",),
        "%",
        (9, 48, 0),
        (0.2, 1.9, 1),
        phrases("""
            s: {e} zeigt falsch
            s: {e} eingefroren
            s: {e} {v} daneben
            d: {e} [zeigt Mist|zeigt falsch|passt nicht], [Schauglas|Peilung|Handmessung] {v} [anders|Unterschied]
            d: {e} [steht wie festgenagelt|ändert sich nicht|eingefroren], obwohl [gepumpt|abgelassen|gefüllt] wird
            d: {e} [springt|rauscht|zackt], [Differenz bis|Sprünge um] {v}
            d: Anzeige {e} [geht auf Vollausschlag|fällt auf null], [Kabelbruch?|Messung unbrauchbar], [Behälter ist halbvoll|vor Ort normal]
            c: [Impulsleitung verstopft|Schwimmer hängt|Antenne verklebt|Dichte stimmt nicht mehr|Schaum stört Radar]
            c: [Kondensat in der Minusleitung|Stutzen zugewachsen|Transmitter abgesoffen]
            m: [Impulsleitungen gespült|Leitung durchgeblasen|Antenne gereinigt], Abweichung {g}
            m: [MSR hat neu abgeglichen|Nullpunkt neu gesetzt|Gerät getauscht], [passt zum Schauglas|Rest {g}]
            m: [Nach Schauglas gefahren|Stündlich von Hand gepeilt], [LSA überbrückt mit Schein|PLT {d} bestellt]
            f: {e} [weicht wieder ab|bisher plausibel], [Abgleich mit Peilstab|Vergleich] {v}
            f: [Bitte {e} weiter gegen Schauglas prüfen|Peilprotokoll {e} liegt in der Messwarte]
            z: {e} [stimmt wieder|plausibel], Abweichung {g}
            z: [{e} neu, Überbrückung raus|Vergleich {e} mit Schauglas 3x gut], [Peilen eingestellt|Auftrag zu]
            q: unplausible Füllhöhenanzeige {place}, Gerät liefert nicht den wahren Inhalt
        """),
        phrases("""
            s: {e} reads wrong
            s: {e} frozen
            s: {e} off {v}
            d: {e} [reads rubbish|reads wrong|can not be right], [sight glass|dip|manual check] differs by {v}
            d: {e} [nailed at one value|does not move|frozen] although we are [pumping|draining|filling]
            d: {e} [jumps|noisy|spikes], [steps of|up to] {v}
            d: Reading {e} [goes full scale|drops to zero], [cable?|useless], [vessel is half full|local looks normal]
            c: [Impulse line plugged|Float stuck|Antenna coated|Density has changed|Foam disturbs the radar]
            c: [condensate in the low leg|nozzle grown shut|transmitter flooded]
            m: [Impulse lines flushed|Line blown through|Antenna cleaned], error {g}
            m: [I&C recalibrated|Zero reset|Device swapped], [matches the glass|rest {g}]
            m: [Running by sight glass|Dipped by hand hourly], [interlock bypassed with permit|I&C ordered for {d}]
            f: {e} [drifting again|plausible so far], [check against dip|comparison] {v}
            f: [Please keep comparing {e} with the glass|Dip sheet for {e} is in the control room]
            z: {e} [correct again|plausible], error {g}
            z: [{e} renewed, bypass removed|{e} agreed with glass three times], [dipping stopped|order closed]
            q: contents indication not trustworthy {place}, what was the remedy?
        """),
    ),
    Fault(
        "temperature_sensor",
        ("TI",),
        "°C",
        (148, 310, 0),
        (41, 88, 0),
        phrases("""
            s: {e} Fühlerbruch
            s: {e} zeigt {v}
            s: {e} Pt100 defekt
            d: {e} [springt auf|zeigt] {v}, [kann nicht sein|unmöglich], [Nachbarmessung normal|Handmessung {g}]
            d: [Fühlerbruch|Drahtbruch|Messkreisfehler] {e} [gemeldet|steht an], [Regelung auf Hand|Verriegelung gefallen]
            d: {e} [driftet|läuft weg|hinkt nach], [zweites Element zeigt {g}|Differenz zum Zweitfühler]
            d: {e} [wackelt|zittert|setzt aus], [bei Regen schlimmer|sobald jemand ans Kabel kommt]
            c: [Pt100 gebrochen|Klemme lose|Feuchtigkeit im Anschlusskopf|Schutzrohr abgerissen]
            c: [Thermoelement gealtert|falscher Messbereich parametriert|Kabel durchgescheuert]
            m: [Auf Redundanz umgeschaltet|Zweitmessung ausgewählt], [MSR kommt {d}|Störmeldung {o}]
            m: [Fühler getauscht|Messeinsatz gewechselt|Klemmen nachgezogen, Kopf getrocknet], zeigt {g}
            m: [Wert simuliert bis zur Reparatur|Verriegelung mit Erlaubnis überbrückt], [stündlich IR-Messung|Handmessung {g}]
            f: {e} [zeigt noch Aussetzer|seit Tausch stabil], [zuletzt|jetzt] {g}
            f: [Simulation {e} steht noch|Ersatzfühler {e} bestellt], [bitte dran denken|Lieferung {d}]
            z: {e} [misst wieder richtig|plausibel], {g}
            z: [Fühler {e} erneuert|Messkreis {e} geprüft], [Simulation raus|Überbrückung zurückgenommen]
            q: welche Thermometer haben Unsinn geliefert {place}?
        """),
        phrases("""
            s: {e} sensor break
            s: {e} reads {v}
            s: {e} Pt100 dead
            d: {e} [jumps to|shows] {v}, [impossible|can't be], [neighbour normal|hand-held says {g}]
            d: [Sensor break|Open circuit|Loop fault] on {e} [alarmed|standing], [control in manual|interlock tripped]
            d: {e} [drifts|walks off|lags], [second element says {g}|differs from its twin]
            d: {e} [flickers|drops out|jitters], [worse with rain|when the cable is touched]
            c: [Pt100 broken|Terminal loose|Moisture in the head|Thermowell snapped]
            c: [thermocouple aged|wrong range configured|cable chafed]
            m: [Switched to the redundant one|Second element selected], [I&C coming {d}|notification {o}]
            m: [Sensor replaced|Insert changed|Terminals tightened, head dried], reads {g}
            m: [Value forced until repaired|Interlock bypassed with approval], [hourly IR check|hand-held {g}]
            f: {e} [still drops out|stable since the change], [last|now] {g}
            f: [Force on {e} still active|Spare sensor for {e} ordered], [don't forget|delivery {d}]
            z: {e} [measures right again|plausible], {g}
            z: [Element {e} renewed|Loop {e} checked], [force removed|bypass taken out]
            q: which thermometers could not be trusted {place}?
        """),
    ),
    Fault(
        "flooding",
        ("K",),
        "mbar",
        (85, 190, 0),
        (22, 48, 0),
        phrases("""
            s: {e} flutet
            s: {e} dp {v}
            s: {e} staut auf
            d: {e} [flutet|staut auf|ist geflutet], Differenzdruck [hoch auf|bei] {v}
            d: dp über {e} [steigt rasant|läuft weg], [Sumpf fällt, Kopf wird nass|Flüssigkeit geht über Kopf], {v}
            d: [Trennung an {e} weg|{e} kippt], [Böden laufen nicht ab|Packung voll], Druckverlust {v}
            d: {e} [spuckt|hustet] [Flüssigkeit in den Kondensator|über Kopf], dp [zackt|pendelt] um {v}
            c: [zu viel Dampf gegeben|Zulauf zu schnell erhöht|Ablaufschacht verlegt|Boden {n}2 verkrustet]
            c: [schäumendes Produkt|Rücklauf zu hoch gefahren|Verteiler verstopft]
            m: [Heizdampf zurückgenommen|Dampf um {n}0 % gedrosselt|Zulauf gestoppt], [dp fällt auf|jetzt] {g}
            m: {e} [auf totalen Rücklauf gestellt|abgefahren und leerlaufen lassen], [neu angefahren|Ruhe abgewartet]
            m: [Last auf {n}5 t/h begrenzt|Rücklauf reduziert], [stabilisiert sich|dp kommt runter]
            f: {e} [an der Grenze|fährt mit kleiner Last stabil], dp {g}
            f: dp {e} [stündlich aufgeschrieben|im Trend], [bei Mehrlast steigt er wieder|ruhig]
            z: {e} [wieder volle Last|normal], dp {g}
            z: [Boden gereinigt|Grenzwert Dampfmenge gesetzt], {e} [stabil seit {n} Schichten|ohne Stau], {g}
            q: Flüssigkeit läuft im Turm nicht mehr nach unten ab {place}
        """),
        phrases("""
            s: {e} flooding
            s: {e} dp {v}
            s: {e} backing up
            d: {e} [floods|is flooded|backs up], dp [up to|at] {v}
            d: dp across {e} [shoots up|runs away], [sump falling, head wet|liquid going overhead], {v}
            d: [Separation on {e} lost|{e} tips over], [trays not draining|packing full], pressure drop {v}
            d: {e} [spits|coughs] liquid [into the condenser|overhead], dp [spikes|swings] around {v}
            c: [too much steam|feed raised too fast|downcomer blocked|tray {n}2 crusted]
            c: [foamy product|reflux too high|distributor plugged]
            m: [Steam cut back|Steam down by {n}0 %|Feed stopped], [dp falling to|now] {g}
            m: {e} [put on total reflux|shut down and drained], [restarted|let it settle]
            m: [Load limited to {n}5 t/h|Reflux reduced], [settling|dp comes down]
            f: {e} [on the edge|stable at low load], dp {g}
            f: dp {e} [noted hourly|on trend], [goes up again with load|calm]
            z: {e} [full load again|normal], dp {g}
            z: [Tray cleaned|Steam limit set], {e} [stable for {n} shifts|no backing up], {g}
            q: liquid no longer draining down the tower internals {place}
        """),
    ),
    Fault(
        "off_spec",
        ("K",),
        "%",
        (91.2, 97.4, 1),
        (99.2, 99.8, 1),
        phrases("""
            s: {e} Kopf off-spec
            s: {e} Reinheit {v}
            s: Destillat {e} schlecht
            d: [Labor meldet|GC sagt|Analyse] Destillat {e} [nur|bei] {v}, [Spez. nicht erreicht|außerhalb Spezifikation]
            d: Kopfprodukt {e} [off-spec|nicht i.O.|unsauber], [Wasser zu hoch|Schwersieder drin], {v}
            d: {e} [trennt schlecht|zieht Schwere mit hoch], Reinheit [fällt auf|nur] {v}
            d: [Probe {e} trüb|Farbe am Kopf {e} gelblich], [Labor: {v}|Analyse läuft]
            c: [Rücklaufverhältnis zu klein|Kopftemp. zu hoch gefahren|Zulauf anders zusammengesetzt|Probe verschleppt]
            c: [Fremdlösemittel im Rückläufer|Wasser aus dem Vortank|Messung Kopftemp. falsch]
            m: [Rücklauf erhöht|RV auf {n} gestellt|Kopftemperatur {n} K gesenkt], [neue Probe um {t}|Labor wartet]
            m: Destillat [in Falschtank gestellt|umgestellt auf Zwischentank|ins Rework gefahren]
            m: [Charge gesperrt|{n} t gesperrt], [wird nochmal destilliert|Rücksprache Qualität]
            f: [Zweite|Nächste] Probe {e} {v}, [wird besser|noch nicht gut], [weiter Falschtank|weiter fahren]
            f: {e} [nähert sich Spez.|Tendenz gut], [Labor misst alle 4 h|nächste Probe {t}]
            z: {e} [wieder in Spez.|Freigabe vom Labor], {g}
            z: [Destillat {e} mit {g} freigegeben|Gut-Probe {e} {g}], [zurück auf Reintank|Umstellung zurück]
            q: Qualitätsprobleme beim Leichtsieder {place}, Produkt nicht verkaufsfähig
        """),
        phrases("""
            s: {e} off-spec
            s: {e} purity {v}
            s: {e} distillate bad
            d: [Lab says|GC gives|Analysis:] distillate {e} [only|at] {v}, [spec missed|out of spec]
            d: Overhead of {e} [off-spec|not ok|dirty], [water high|heavies in it], {v}
            d: {e} [separates badly|drags heavies over], purity [down to|only] {v}
            d: [Sample {e} hazy|Overhead of {e} yellowish], [lab: {v}|analysis running]
            c: [Reflux ratio too small|Head temp run too high|Feed composition changed|Sample contaminated]
            c: [foreign solvent in the recycle|water from the feed tank|head temp reading wrong]
            m: [Reflux raised|Ratio set to {n}|Head temperature {n} K down], [new sample at {t}|lab waiting]
            m: Distillate [to slops tank|swung to the intermediate tank|sent to rework]
            m: [Batch blocked|{n} t blocked], [to be redistilled|quality dept involved]
            f: [Second|Next] sample {e} {v}, [improving|not good yet], [stay on slops|go on]
            f: {e} [approaching spec|good trend], [lab measures every 4 h|next sample {t}]
            z: {e} [in spec|released by lab], {g}
            z: [Distillate {e} released at {g}|Good sample {e} {g}], [back to product tank|swung back]
            q: product of the light cut not sellable {place}
        """),
    ),
    Fault(
        "foaming",
        ("R", "BB"),
        "%",
        (84, 98, 0),
        (55, 70, 0),
        phrases("""
            s: {e} schäumt
            s: Schaum {e}, {v}
            s: {e} schäumt über
            d: {e} schäumt [stark|über|wie verrückt], [Schauglas weiß|Schaum bis in die Brüdenleitung], Stand {v}
            d: [Schaumalarm|Schaumsonde] {e} [ausgelöst|dauernd da], [Stand springt auf|scheinbar] {v}
            d: [Dicke Schaumdecke|Schaumkrone] auf {e}, [läuft gleich über|wird mehr], {v}
            d: Beim [Aufheizen|Dosieren|Belüften] [geht Schaum hoch|bläht sich der Inhalt auf] in {e}
            c: [Tensid im Rohstoff|zu schnell entspannt|Waschmittel aus der Reinigung|zu viel Luft]
            c: [Entschäumer war leer|Rezept geändert|anderer Lieferant]
            m: [Entschäumer zugegeben|{n} l Antischaum dosiert], [fällt zusammen|Schaum geht zurück]
            m: [Dosierung gestoppt|Rührer langsamer|Belüftung gedrosselt|Aufheizrate halbiert], [abgewartet|beruhigt sich]
            m: [Vakuum etwas weggenommen|Mit Wasser niedergeschlagen], Stand [zurück auf|wieder] {g}
            f: {e} [schäumt nur noch leicht|Schaum kommt wieder bei hoher Drehzahl], Stand {g}
            f: [Entschäumervorrat {e} nachgefüllt|Dosierung {e} mit halber Rate], [beobachten|geht]
            z: {e} [kein Schaum mehr|ruhig], Stand {g}
            z: [Antischaum jetzt fest im Rezept|Rohstoffcharge aussortiert], {e} [normal|unauffällig]
            q: Bildung von Gasblasen an der Oberfläche, Inhalt quillt hoch {place}
        """),
        phrases("""
            s: {e} foaming
            s: foam {e}, {v}
            s: {e} foams over
            d: {e} foaming [heavily|over|like mad], [sight glass white|foam up in the vapour line], level {v}
            d: [Foam alarm|Foam probe] {e} [tripped|standing], level [jumps to|apparently] {v}
            d: [Thick blanket of foam|Foam head] on {e}, [about to spill|growing], {v}
            d: During [heat-up|dosing|aeration] [foam climbs|the batch swells] in {e}
            c: [Surfactant in raw material|vented too fast|detergent from cleaning|too much air]
            c: [antifoam was empty|recipe changed|other supplier]
            m: [Antifoam added|{n} l defoamer dosed], [collapsing|foam going down]
            m: [Dosing stopped|Stirrer slowed|Aeration throttled|Heating rate halved], [waited|calming down]
            m: [Vacuum eased|Knocked down with water], level [back to|again] {g}
            f: {e} [foams only slightly|foam back at high speed], level {g}
            f: [Antifoam stock at {e} refilled|Dosing {e} at half rate], [watch|works]
            z: {e} [no foam any more|calm], level {g}
            z: [Antifoam now part of the recipe|Raw material lot rejected], {e} [normal|fine]
            q: froth on the surface swelling the contents {place}
        """),
    ),
    Fault(
        "exotherm",
        ("R",),
        "°C",
        (96, 138, 0),
        (60, 78, 0),
        phrases("""
            s: {e} Temp hoch
            s: {e} geht durch?
            s: {e} {v}, Notkühlung
            d: Innentemperatur {e} [steigt ohne Heizen|läuft hoch|schießt hoch], [schon|aktuell] {v}
            d: {e} [wird zu warm|überschwingt], [Kühlung auf Anschlag|Mantel voll kalt], {v}
            d: [Reaktion in {e} springt spät an|Akkumulation in {e}?|{e} zieht plötzlich an], Temp. [auf|bei] {v}
            d: [TSHH|Temperaturhochalarm] {e} um {t}, [Dosierung verriegelt|Stopp Dosierung durch PLS], {v}
            c: [zu schnell dosiert|Starttemperatur zu niedrig gewesen|Kühlsole zu warm|Rührer zu langsam]
            c: [Katalysator doppelt zugegeben|Kühlwasserdruck war weg|Monomer aufgestaut]
            m: [Dosierung von Hand gestoppt|Zulauf zu], [Notkühlung auf|volle Kühlung], [Temp. fällt|Spitze {v}]
            m: [Mit kaltem Lösungsmittel verdünnt|Stopper bereitgestellt|Inhalt kaltgerührt], [jetzt|nach 40 min] {g}
            m: [Bereich geräumt|Betriebsleiter geholt|Feuerwehr vorgewarnt], [{e} unter Kontrolle|Druck blieb normal]
            f: {e} [abgekühlt auf|hält] {g}, [Charge steht|wartet auf Entscheidung]
            f: [Probe aus {e} ins Labor|Umsatz {e} wird bestimmt], [Dosierung bleibt zu|halbe Rate erlaubt]
            z: Charge in {e} [fertig gefahren|mit halber Dosierrate beendet], {g}
            z: [Besprechung zu {e} gehalten|Ursache {e} geklärt], [Rezept angepasst|Verriegelung bei {g} ergänzt]
            q: beinahe Durchgehen der Umsetzung wegen Wärmestau {place}
        """),
        phrases("""
            s: {e} temp high
            s: {e} runaway?
            s: {e} {v}, emergency cooling
            d: Inner temperature {e} [rising without heating|climbing|shooting up], [already|now] {v}
            d: {e} [getting too hot|overshoots], [cooling at its limit|jacket full cold], {v}
            d: [Reaction in {e} kicks in late|Accumulation in {e}?|{e} takes off], temp [to|at] {v}
            d: [TSHH|High temp alarm] {e} at {t}, [dosing interlocked|DCS stopped the dosing], {v}
            c: [dosed too fast|start temperature was too low|brine too warm|stirrer too slow]
            c: [catalyst charged twice|cooling water pressure was lost|monomer built up]
            m: [Dosing stopped by hand|Feed shut], [emergency cooling on|full cooling], [temp falling|peak {v}]
            m: [Diluted with cold solvent|Stopper made ready|Stirred cold], [now|after 40 min] {g}
            m: [Area cleared|Plant manager called|Fire brigade warned], [{e} under control|pressure stayed normal]
            f: {e} [cooled to|holding] {g}, [batch on hold|waiting for a decision]
            f: [Sample of {e} to lab|Conversion of {e} being checked], [dosing stays off|half rate allowed]
            z: Batch in {e} [completed|finished at half dosing rate], {g}
            z: [Review on {e} held|Cause at {e} clear], [recipe adapted|interlock at {g} added]
            q: uncontrolled heat release during synthesis {place}
        """),
    ),
    Fault(
        "gearbox",
        ("RW",),
        "°C",
        (86, 118, 0),
        (48, 64, 0),
        phrases("""
            s: Getriebe {e} heiß
            s: {e} verliert Getriebeöl
            s: {e} Getriebe {v}
            d: Getriebe {e} [zu heiß|wird heiß], [gemessen|Gehäuse] {v}
            d: {e} verliert [Öl|Getriebeöl], [Fleck unterm Getriebe|Ölfilm am Mantel|Schauglas halb leer]
            d: [Heulen|Klackern|Schlagen] aus dem Getriebe {e}, [lastabhängig|bei jeder Umdrehung], {v}
            d: Öl im Getriebe {e} [schwarz|milchig|mit Spänen], [Ölwechsel überfällig|sieht übel aus]
            c: [Radialwellendichtring hin|Ölstand zu tief|Zahnflanken ausgebrochen|falsches Öl]
            c: [Wasser im Öl|Entlüfter zu|Getriebelager eingelaufen]
            m: [{n} l Öl nachgefüllt|Ölwechsel gemacht|Öl abgelassen und gespült], Temp. [danach|jetzt] {g}
            m: [Drehzahl auf {n}0 1/min runter|{e} nur noch bei Bedarf], [Getriebefirma {d}|Wellendichtring bestellt]
            m: [Simmerring erneuert|Austauschgetriebe montiert], Auftrag {o}
            f: Getriebe {e} {v}, [Ölstand ok|Stand fällt langsam], [Wanne drunter|Schauglas markiert]
            f: [Ölprobe {e} weg|Ölanalyse {e}: Eisen hoch], [Tausch im Stillstand|weiter beobachten]
            z: Getriebe {e} [dicht und kühl|wieder ok], {g}
            z: {e} [mit neuem Getriebe|nach Ölwechsel] [leise|unauffällig], {g}
            q: Untersetzung vom Mischer {place} überhitzt oder ohne Schmierstoff
        """),
        phrases("""
            s: {e} gearbox hot
            s: {e} gear oil leak
            s: gearbox {e} {v}
            d: Gearbox of {e} [too hot|running hot], [measured|housing] {v}
            d: {e} loses [oil|gear oil], [spot below|oil film on the jacket|glass half empty]
            d: [Howling|Clacking|Knocking] from the gearbox {e}, [with load|each turn], {v}
            d: Oil in {e} gearbox [black|milky|with metal flakes], [oil change overdue|looks bad]
            c: [Lip seal gone|Oil level low|Tooth flanks chipped|wrong oil]
            c: [water in oil|breather blocked|gear bearing worn]
            m: [{n} l oil topped up|Oil changed|Oil drained and flushed], temp [after|now] {g}
            m: [Speed down to {n}0 rpm|{e} only when needed], [gearbox firm {d}|lip seal ordered]
            m: [Lip seal renewed|Exchange gearbox fitted], WO {o}
            f: Gearbox {e} {v}, [oil level ok|level slowly falling], [tray below|glass marked]
            f: [Oil sample {e} sent|Oil analysis {e}: iron high], [swap at shutdown|keep watching]
            z: Gearbox {e} [tight and cool|fine again], {g}
            z: {e} [with new gearbox|after oil change] [quiet|fine], {g}
            q: mixer transmission losing lubricant or overheating {place}
        """),
    ),
    Fault(
        "surge",
        ("C",),
        "m³/h",
        (820, 1450, 0),
        (2300, 3100, 0),
        phrases("""
            s: {e} pumpt
            s: {e} Pumpgrenze
            s: {e} schlägt, {v}
            d: {e} [pumpt|geht ins Pumpen|schlägt], [Durchsatz|Ansaugmenge] nur {v}
            d: [Dumpfe Schläge|Knallen|Wummern] an {e}, [Rückschlagklappe schlägt|Druck atmet], {v}
            d: Pumpschutz {e} [hat angesprochen|macht auf und zu], [Menge an der Pumpgrenze|Arbeitspunkt links], {v}
            d: Enddruck {e} [schwankt im Sekundentakt|atmet], [Axialschub hoch|Welle wandert], Menge {v}
            c: [Abnehmer plötzlich weg|Ansaugfilter halb zu|Bypass klemmte|Molgewicht anders]
            c: [Pumpgrenzregler falsch eingestellt|Lastwechsel zu schnell|Leitschaufeln hängen]
            m: [Bypass von Hand auf|Umblaseventil geöffnet|Drehzahl angehoben], Menge {g}
            m: {e} [entlastet|auf Umblasen gestellt], [Fachfirma angerufen|Regelung wird überprüft]
            m: [Leitschaufeln gangbar gemacht|Kennlinie neu eingemessen|Reglerabstand vergrößert], Meldung {o}
            f: {e} [mit offenem Bypass stabil|ein Schlag um {t}], Menge {g}
            f: [Bypass {e} bleibt {n}0 % auf|Energieverlust in Kauf genommen], [bis Regler eingestellt|bis {d}]
            z: {e} [ohne Schläge|ruhig], Menge {g}
            z: [Pumpgrenzregelung {e} eingestellt|Lasttest {e} bestanden], [Bypass zu|Automatik]
            q: instabile Strömung mit periodischer Rückströmung an Turbomaschine {place}
        """),
        phrases("""
            s: {e} surging
            s: {e} surge trip
            s: {e} banging, {v}
            d: {e} [surges|goes into surge|is banging], [throughput|suction flow] only {v}
            d: [Dull bangs|Thumping|Booming] at {e}, [check valve slams|pressure breathing], {v}
            d: Anti-surge of {e} [acted|opens and closes], [flow at the limit|operating point far left], {v}
            d: Discharge of {e} [swings every second|breathes], [axial thrust up|shaft moves], flow {v}
            c: [consumer suddenly gone|suction filter half blocked|bypass stuck|gas weight changed]
            c: [anti-surge controller badly tuned|load change too fast|guide vanes stuck]
            m: [Bypass opened by hand|Blow-off opened|Speed raised], flow {g}
            m: {e} [unloaded|put on recycle], [specialist called|control under review]
            m: [Guide vanes freed|Curve measured anew|Margin widened], notification {o}
            f: {e} [stable with open bypass|one bang at {t}], flow {g}
            f: [Bypass {e} stays {n}0 % open|Energy loss accepted], [until tuned|until {d}]
            z: {e} [no more bangs|calm], flow {g}
            z: [Anti-surge {e} tuned|Load test {e} passed], [bypass shut|auto]
            q: unstable flow with periodic reversal on turbo machinery {place}
        """),
    ),
    Fault(
        "discharge_temperature",
        ("C",),
        "°C",
        (142, 178, 0),
        (96, 118, 0),
        phrases("""
            s: {e} Endtemp hoch
            s: {e} zu heiß, {v}
            s: Stufe 2 {e} {v}
            d: [Austrittstemperatur|Endtemperatur|Druckseite] {e} [zu hoch|klettert], {v}
            d: {e} [Stufe 2|Stufe 1] [läuft heiß|wird heiß], [Alarm bei|schon] {v}
            d: Gas hinter {e} [{v}|viel zu warm, {v}], [Zwischenkühlung schwach|Kühlwasser warm]
            d: [Temperaturvoralarm|Voralarm] {e} [steht|kam um {t}], [kurz vor Abschaltung|Trend steil], {v}
            c: [Zwischenkühler verschmutzt|Ventilplatte gebrochen|Ansaugung zu warm|Verdichtungsverhältnis zu hoch]
            c: [Labyrinth verschlissen|Kühlwasserschieber halb zu|innere Rückströmung]
            m: [Last abgesenkt|{e} auf {n}0 % Last|Enddruck reduziert], [Temp.|nun] {g}
            m: [Kühlwasser ganz aufgedreht|Zwischenkühler rückgespült], [hilft etwas|bringt 10 K]
            m: [Umgestellt auf Reserve-Verdichter|{e} abgefahren], [Ventile werden gezogen|Inspektion {d}], Auftrag {o}
            f: {e} Endtemperatur {v}, [gehalten|bei Hitze mittags höher]
            f: [Kompressorfirma zu {e} da gewesen|Befund {e} steht aus], [läuft mit Teillast|Reserve in Betrieb]
            z: {e} Endtemp. {g}, [volle Last|ok]
            z: [Ventilplatten {e} erneuert|Kühler {e} gereinigt], [Probelauf {g}|Temperatur gut]
            q: verdichtetes Gas verlässt die Maschine überhitzt {place}
        """),
        phrases("""
            s: {e} discharge hot
            s: {e} {v}, high
            s: {e} stage 2 {v}
            d: [Discharge temperature|Outlet temp|Hot side] of {e} [too high|creeping up], {v}
            d: {e} [stage 2|stage 1] [runs hot|getting hot], [alarm at|already] {v}
            d: Gas after {e} [{v}|far too warm, {v}], [intercooling weak|cooling water warm]
            d: [High temp pre-alarm|Pre-alarm] {e} [standing|came at {t}], [close to trip|steep trend], {v}
            c: [Intercooler dirty|Valve plate broken|Suction too warm|Ratio too high]
            c: [labyrinth worn|cooling water valve half shut|internal recycle]
            m: [Load lowered|{e} at {n}0 % load|Discharge pressure reduced], [temp|now] {g}
            m: [Cooling water fully opened|Intercooler backflushed], [helps a bit|gains 10 K]
            m: [Changed to the standby machine|{e} shut down], [valves being pulled|inspection {d}], WO {o}
            f: {e} discharge {v}, [holding|higher in the midday heat]
            f: [Compressor firm looked at {e}|Report on {e} pending], [part load|standby running]
            z: {e} discharge {g}, [full load|ok]
            z: [Valve plates {e} renewed|Cooler {e} cleaned], [test run {g}|temp good]
            q: compressed gas leaving the machine overheated {place}
        """),
    ),
    Fault(
        "warm_water",
        ("KT",),
        "°C",
        (29.5, 36.0, 1),
        (20.0, 24.5, 1),
        phrases("""
            s: KW zu warm
            s: {e} Vorlauf {v}
            s: {e} schafft's nicht
            d: Kühlwasser [Vorlauf|] {e} [zu warm|steigt], {v}, [Betriebe beschweren sich|Verbraucher melden sich]
            d: {e} [kommt nicht nach|schafft die Wärme nicht], Vorlauf {v}, [schwül draußen|Außentemp. {n}0]
            d: [Vorlauftemperatur|Rücklauf] {e} [über Grenze|Alarm], {v}, [nur ein Lüfter läuft|alle Lüfter an]
            d: [Kühlwassertemperatur hoch|KW warm] an {e}, [Düsen teilweise zu|Wasser läuft einseitig], {v}
            c: [Lüfterflügel verstellt|Verteildüsen zu|Füllkörper verkalkt|Feuchtkugel zu hoch]
            c: [ein Lüfter auf Stufe 1 hängen geblieben|Riemen gerissen|zu wenig Umlauf]
            m: [zweiten Lüfter zugeschaltet|Lüfter auf Stufe 2|Riemen neu], Vorlauf {g}
            m: [Düsen freigestochert|Verteilerrinne gereinigt|Frischwasser zugespeist], [Temp. fällt|bringt 2 K]
            m: [Verbraucher zum Lastsenken aufgefordert|Produktion {n}0 % runter], [bis Abend|bis es kühler wird]
            f: Vorlauf {e} {v}, [nachts besser|weiter grenzwertig]
            f: {e} [beide Lüfter volle Stufe|Frischwasser bleibt auf], [Düsenreinigung {d}|Wetter soll umschlagen]
            z: Vorlauf {e} {g}, [normal|Betriebe zufrieden]
            z: [Füllkörper {e} gereinigt|Lüfter {e} komplett], {g}, [Frischwasser zu|Lastsenkung aufgehoben]
            q: gab es {place} Engpässe bei der Rückkühlung im Sommer?
        """),
        phrases("""
            s: CW too warm
            s: {e} supply {v}
            s: {e} can't cope
            d: Cooling water [supply|] from {e} [too warm|rising], {v}, [plants complaining|users calling in]
            d: {e} [can not keep up|can't reject the heat], supply {v}, [muggy outside|ambient {n}0]
            d: [Supply temp|Return] of {e} [over limit|alarm], {v}, [one fan only|all fans on]
            d: [CW temp high|Warm CW] at {e}, [nozzles partly blocked|water on one side only], {v}
            c: [Fan blade pitch off|Spray nozzles blocked|Fill scaled|Wet bulb too high]
            c: [one fan stuck on low speed|belt torn|circulation too low]
            m: [second fan started|Fans to high speed|New belt], supply {g}
            m: [Nozzles poked free|Distribution trough cleaned|Fresh water added], [temp falling|gains 2 K]
            m: [Users asked to cut load|Production {n}0 % down], [until evening|until it cools off]
            f: Supply {e} {v}, [better at night|still marginal]
            f: {e} [both fans high|fresh water stays open], [nozzle cleaning {d}|weather to change]
            z: Supply {e} {g}, [normal|users happy]
            z: [Fill of {e} cleaned|Fans of {e} complete], {g}, [fresh water shut|load limit lifted]
            q: did we run short of heat rejection in summer {place}?
        """),
    ),
    Fault(
        "growth",
        ("KT",),
        "KBE/ml",
        (11000, 90000, 0),
        (120, 900, 0),
        phrases("""
            s: {e} Algen
            s: Keimzahl {e} {v}
            s: {e} Biozid leer
            d: [Algen|Schleim|grüner Belag] [an|in] {e}, [Tasse rutschig|Füllkörper grün]
            d: [Keimzahl|Gesamtkeimzahl] {e} [hoch|über Maßnahmewert], {v}
            d: [Labor|Dienstleister] meldet {e} {v}, [Legionellenprobe läuft|Meldung ans Amt prüfen]
            d: {e} riecht [muffig|faulig], [Wasser grünlich|Schaum und Schleim], [Biozid leer?|Dosierung steht]
            c: [Biozidpumpe stand|Dosierleitung verstopft|Gebinde leer|Sonne und Nährstoffe]
            c: [Produkteintrag füttert die Algen|Abschlämmung zu|UV-Lampe aus]
            m: [Stoßdosierung Biozid|{n} l Biozid von Hand|Hypochlorit zugegeben], [Abschlämmung zu für 6 h|Nachprobe {d}]
            m: [Tasse ausgesaugt|Sandfilter gespült|Belag abgespritzt], [mit Maske und Schutzanzug|Firma vor Ort]
            m: [Dosierpumpe repariert|Neues Gebinde angeschlossen|Dosierung verdoppelt], [läuft|Redox steigt]
            f: Keimzahl {e} [nach Stoß|Nachprobe] {v}, [zweiter Stoß {d}|sinkt]
            f: {e} [Belag weniger|noch grüne Ecken], [Biozid dosiert|Redox ok]
            z: {e} [Keimzahl|Nachprobe] {g}, [unter Maßnahmewert|Amt informiert, zu]
            z: [{e} sauber|Wasser {e} klar], {g}, [Dosierung Normalwert|Protokoll abgelegt]
            q: mikrobiologische Belastung des Umlaufwassers {place}
        """),
        phrases("""
            s: {e} algae
            s: {e} count {v}
            s: {e} biocide empty
            d: [Algae|Slime|Green film] [on|in] {e}, [basin slippery|fill green]
            d: [Plate count|Total count] of {e} [high|above action level], {v}
            d: [Lab|Service firm] reports {v} for {e}, [legionella test running|check duty to notify]
            d: {e} smells [musty|foul], [water greenish|foam and slime], [biocide empty?|dosing stopped]
            c: [Biocide pump was off|dosing line blocked|drum empty|sun and nutrients]
            c: [product ingress feeds it|blowdown shut|UV lamp out]
            m: [Shock dose of biocide|{n} l biocide by hand|hypochlorite added], [blowdown shut for 6 h|resample {d}]
            m: [Basin vacuumed|Sand filter flushed|Film hosed off], [mask and suit worn|contractor on site]
            m: [Dosing pump repaired|New drum connected|Dosing doubled], [works|redox rising]
            f: Count {e} [after shock|resample] {v}, [second shock {d}|falling]
            f: {e} [less film|some green corners left], [biocide dosed|redox ok]
            z: {e} [count|resample] {g}, [below action level|authority informed, closed]
            z: [{e} clean|Water in {e} clear], {g}, [dosing normal|record filed]
            q: microbiological contamination of circulating water {place}
        """),
    ),
    Fault(
        "ph",
        ("BB",),
        "pH",
        (10.1, 12.4, 1),
        (7.2, 8.4, 1),
        phrases("""
            s: {e} {v}
            s: pH {e} Alarm
            s: {e} zu alkalisch
            d: pH-Wert {e} [zu hoch|außer Grenzen|Alarm], {v}, [Ablauf gesperrt|Einleitung gestoppt]
            d: {e} [alkalisch|laugig], {v}, [Schwall aus der Produktion|Neutralisation kommt nicht nach]
            d: [Neutralisation|Säuredosierung] {e} [regelt nicht|ohne Wirkung], Ablauf {v}
            d: [Sonde|Labor] sagt {v} in {e}, [zweite Sonde bestätigt|Streifen bestätigt]
            c: [Säuretank leer|Lauge aus Reinigung abgelassen|Dosierpumpe verloren|Elektrode belegt]
            c: [Betrieb hat nicht angemeldet|falsches Spülwasser|Rührer stand]
            m: [Schwefelsäure von Hand|{n}0 l Säure dosiert|Säurepumpe entlüftet], [pH fällt|jetzt {g}]
            m: [Ablauf ins Havariebecken|Schieber zum Kanal zu|Umlauf gefahren], [Gewässerschutz informiert|Meldung {o}]
            m: [Elektrode gereinigt und kalibriert|Neue pH-Kette eingebaut], [zeigt {g}|stimmt mit Labor]
            f: {e} {v}, [nähert sich|noch nicht einleitfähig], [Umlauf läuft|Säure läuft]
            f: [Havariebecken zu {n}0 % voll|Rückhaltung {e} wird abgearbeitet], {g}
            z: {e} {g}, [Einleitung wieder auf|Ablauf frei]
            z: [Havariebecken {e} neutralisiert und leer|Verursacher gefunden], [Behörde informiert|zu den Akten]
            q: Säure-Lauge-Gleichgewicht des Schmutzwassers {place} verletzt die Einleiterlaubnis
        """),
        phrases("""
            s: {e} {v}
            s: {e} pH alarm
            s: {e} too alkaline
            d: pH in {e} [too high|out of limits|alarm], {v}, [outlet blocked|discharge stopped]
            d: {e} [alkaline|caustic], {v}, [slug from production|neutralisation can't follow]
            d: [Neutralisation|Acid dosing] at {e} [not controlling|no effect], outlet {v}
            d: [Probe|Lab] says {v} in {e}, [second probe agrees|strip agrees]
            c: [Acid tank empty|caustic from cleaning dumped|dosing pump lost prime|electrode coated]
            c: [plant did not announce it|wrong rinse water|mixer was off]
            m: [Sulphuric by hand|{n}0 l acid dosed|Acid pump vented], [pH falling|now {g}]
            m: [Outlet to emergency basin|Gate to sewer shut|Put on recycle], [water officer informed|notification {o}]
            m: [Electrode cleaned and calibrated|New pH chain fitted], [reads {g}|agrees with lab]
            f: {e} {v}, [getting there|not fit to discharge], [recycle on|acid on]
            f: [Emergency basin {n}0 % full|Retained water of {e} being worked off], {g}
            z: {e} {g}, [discharge open|outlet free]
            z: [Emergency basin {e} neutralised and empty|Culprit found], [authority told|filed]
            q: acidity of the sewage breaks the discharge permit {place}
        """),
    ),
    Fault(
        "solvent_in_water",
        ("BB",),
        "mg/l",
        (1900, 6400, 0),
        (240, 620, 0),
        phrases("""
            s: Lömi in {e}
            s: TOC {e} {v}
            s: {e} Ölfilm
            d: [TOC|CSB] {e} [schießt hoch|zu hoch], {v}, [Geruch nach Lömi|Ex-Messung schlägt an]
            d: [Lösungsmittel|Toluol|organische Phase] auf {e}, [Film schillert|Schicht fingerdick]
            d: [Labor|Online-TOC] {e} {v}, [Biologie leidet|Zulauf gestoppt]
            d: {e} [riecht stark|stinkt nach Lösungsmittel], [Bakterien tot?|Sauerstoff fällt], {v}
            c: [Abscheider übergelaufen|Phasentrennung verpasst|Leck in den Kanal|Tank entwässert ohne Aufsicht]
            c: [Schauglas nicht beachtet|Trennschicht falsch gemessen|Regen hat Kanal gespült]
            m: [Schicht abgesaugt|Saugwagen bestellt|Skimmer in Betrieb], [{n} m³ abgezogen|Oberfläche frei]
            m: [Zulauf auf Rückhaltebecken|Belebung geschützt, Zulauf zu], [Verursacher wird gesucht|alle Betriebe gefragt]
            m: [Aktivkohle zugegeben|Belüftung hoch], [TOC fällt auf {g}|Werte kommen runter]
            f: TOC {e} {v}, [fällt langsam|noch zu viel], [Rückhaltung bleibt|kleine Menge dosiert]
            f: [Film {e} dünner|Saugwagen kommt {d} nochmal], [Ex-Messung sauber|Geruch weniger]
            z: TOC {e} {g}, [Zulauf wieder auf|Biologie erholt]
            z: [Quelle war Abscheider|Leck gefunden], [{e} normal|{e} abgearbeitet], {g}
            q: organische Verunreinigung im Zulauf zur Biologie {place}
        """),
        phrases("""
            s: solvent in {e}
            s: {e} TOC {v}
            s: {e} oil film
            d: [TOC|COD] in {e} [shoots up|too high], {v}, [solvent smell|LEL meter reacts]
            d: [Solvent|Toluene|Organic phase] on {e}, [film shimmers|layer finger thick]
            d: [Lab|Online TOC] {e} {v}, [biology suffers|inlet stopped]
            d: {e} [smells strongly|stinks of solvent], [bugs dead?|oxygen dropping], {v}
            c: [Separator overflowed|phase cut missed|leak into the sewer|tank drained unattended]
            c: [sight glass ignored|interface measured wrong|rain flushed the sewer]
            m: [Layer sucked off|Vacuum truck ordered|Skimmer on], [{n} m³ removed|surface clear]
            m: [Inlet to retention basin|Aeration protected, inlet shut], [searching the culprit|all plants asked]
            m: [Carbon added|Aeration up], [TOC down to {g}|values coming down]
            f: TOC {e} {v}, [slowly falling|still too much], [retention stays|small dose only]
            f: [Film on {e} thinner|Vacuum truck again on {d}], [LEL clean|less smell]
            z: TOC {e} {g}, [inlet open|biology recovered]
            z: [Source was the separator|Leak found], [{e} normal|{e} worked off], {g}
            q: organic pollution reaching the biological stage {place}
        """),
    ),
    Fault(
        "high_level",
        ("T", "B"),
        "%",
        (91, 97, 0),
        (60, 82, 0),
        phrases("""
            s: {e} fast voll
            s: {e} Überfüllalarm
            s: {e} {v}, Stopp
            d: {e} [fast voll|läuft voll|hoch], {v}, [Voralarm|Hochalarm] um {t}
            d: [Überfüllsicherung|LSHH] {e} [angesprochen|gefallen], [Pumpe verriegelt|Zulauf zu], {v}
            d: {e} [steigt, obwohl keiner umpumpt|steigt ohne Grund], [schon|bei] {v}
            d: [Einlagerung in {e} zu spät beendet|Umpumpen nach {e} vergessen], {v}
            c: [falscher Tank angewählt|Ventil am Verteiler undicht|Abgabe steht|Menge falsch angemeldet]
            c: [Kommunikation mit Verladung|Alarm lange unterdrückt|Rücklauf geht in den Tank]
            m: [Zulauf zu|Pumpe aus], [{n}0 m³ in Nachbartank umgelagert|umgepumpt], [Stand|nun] {g}
            m: [Verteiler geprüft und zu|Leitungsweg korrigiert], [Überfüllsicherung quittiert|Verriegelung zurück]
            m: [TKW vorgezogen|Abgabe erhöht], {e} [fällt|auf {g}]
            f: {e} [steigt noch langsam|hält], {v}, [Ventil am Verteiler undicht?|Weg nochmal prüfen]
            f: [Peilung {e} bestätigt|Stand {e} stündlich], {g}, [kein Zulauf|unter Beobachtung]
            z: {e} {g}, [Alarm weg|entspannt]
            z: [Überfüllsicherung {e} geprüft, ok|Ablauf der Einlagerung {e} besprochen], {g}
            q: wann wäre uns {place} beinahe etwas übergelaufen
        """),
        phrases("""
            s: {e} nearly full
            s: {e} overfill alarm
            s: {e} {v}, stopped
            d: {e} [nearly full|filling up|high], {v}, [pre-alarm|high alarm] at {t}
            d: [Overfill protection|LSHH] of {e} [acted|tripped], [pump interlocked|inlet shut], {v}
            d: {e} [rising though nobody pumps|rises for no reason], [already|at] {v}
            d: [Transfer into {e} stopped too late|Transfer to {e} forgotten], {v}
            c: [wrong tank lined up|manifold valve passing|offtake stopped|quantity announced wrong]
            c: [communication with loading|alarm suppressed for long|return goes to the tank]
            m: [Inlet shut|Pump off], [{n}0 m³ moved to the neighbour|transferred], [level|now] {g}
            m: [Manifold checked and shut|Line-up corrected], [overfill reset|interlock restored]
            m: [Truck brought forward|Offtake raised], {e} [falling|at {g}]
            f: {e} [still creeping up|holding], {v}, [manifold valve passing?|check line-up again]
            f: [Dip {e} confirmed|Level {e} hourly], {g}, [no inflow|under watch]
            z: {e} {g}, [alarm gone|relaxed]
            z: [Overfill test {e} ok|Transfer procedure {e} discussed], {g}
            q: near misses where we almost spilled something over the top {place}
        """),
    ),
    Fault(
        "blanketing",
        ("T", "B"),
        "mbar",
        (0.2, 2.4, 1),
        (12.0, 22.0, 1),
        phrases("""
            s: N2 {e} fehlt
            s: {e} Polster {v}
            s: {e} Unterdruck
            d: [Stickstoffpolster|N2-Überlagerung|Inertisierung] {e} [fällt|zusammengebrochen], {v}
            d: {e} [zieht Unterdruck|Gasdruck weg|ohne Überdruck], {v}, [O2-Gehalt steigt|Inertgas strömt nicht]
            d: [Druckalarm tief|PAL] {e} [beim Abpumpen|um {t}], {v}, [N2-Regler träge|Stickstoff kommt nicht nach]
            d: Stickstoffverbrauch {e} [doppelt so hoch|auffällig], [bläst irgendwo ab|Polster hält nicht], {v}
            c: [Reduzierstation vereist|Regler hängt|N2-Netz abgesackt|Peildeckel nicht zu]
            c: [Filter vor Regler zu|Membran im Regler porös|Absperrung zu vergessen]
            m: [Abpumpen gestoppt|Entnahme langsamer], [N2 über Bypass|mit Handventil aufgedrückt], {g}
            m: [Druckregler getauscht|Filter am N2-Regler gereinigt|Peildeckel neu gedichtet], Polster {g}
            m: [O2 gemessen, {n} %|Sauerstoff geprüft], [gespült bis unter Grenze|kein Befüllen erlaubt], Meldung {o}
            f: Polster {e} {v}, [hält mit Bypass|schwankt], [Regler bestellt|PLT {d}]
            f: [N2-Verbrauch {e} notiert|Druck {e} im Trend], {g}, [wird weiter verfolgt|stabil]
            z: Polster {e} {g}, [Bypass zu|Regler arbeitet]
            z: [Inertisierung {e} i.O.|Druckhaltung {e} normal], {g}, [Befüllen wieder erlaubt|Sperre weg]
            q: Schutzgasüberlagerung eines Lagergefäßes {place} hält den Druck nicht
        """),
        phrases("""
            s: {e} no N2
            s: {e} blanket {v}
            s: {e} under vacuum
            d: [Nitrogen blanket|N2 padding|Inerting] of {e} [falling|collapsed], {v}
            d: {e} [pulls vacuum|lost its gas pressure|no overpressure], {v}, [O2 rising|no inert gas flow]
            d: [Low pressure alarm|PAL] {e} [while pumping out|at {t}], {v}, [N2 regulator sluggish|nitrogen can't follow]
            d: Nitrogen use of {e} [doubled|odd], [blowing off somewhere|blanket not holding], {v}
            c: [Reducing station iced|regulator stuck|N2 header sagged|dip hatch open]
            c: [filter ahead of regulator blocked|diaphragm porous|block valve left shut]
            m: [Pump-out stopped|Slower offtake], [N2 via bypass|padded by hand valve], {g}
            m: [Regulator swapped|Regulator filter cleaned|Dip hatch resealed], blanket {g}
            m: [O2 measured, {n} %|Oxygen checked], [purged below limit|no filling allowed], notification {o}
            f: Blanket {e} {v}, [holds on bypass|swings], [regulator ordered|I&C {d}]
            f: [N2 use {e} noted|Pressure {e} on trend], {g}, [being followed|stable]
            z: Blanket {e} {g}, [bypass shut|regulator works]
            z: [Inerting {e} ok|Pressure control {e} normal], {g}, [filling allowed|hold lifted]
            q: protective gas cushion of a storage container not keeping pressure {place}
        """),
    ),
    Fault(
        "earthing",
        ("FS",),
        "Ohm",
        (240, 980, 0),
        (2, 8, 0),
        phrases("""
            s: {e} Erdung rot
            s: {e} keine Freigabe
            s: Erdungszange {e} kaputt
            d: {e} [Erdungsüberwachung|Erdung] [kommt nicht|rot|keine Freigabe], [TKW steht|Befüllung verriegelt]
            d: [Erdungszange|Klemme] {e} [defekt|ausgeleiert|Kabel gequetscht], Widerstand {v}
            d: Befüllung {e} [bricht ab|mehrmals gestoppt], [Erdungssignal wackelt|Erdung fällt ab], {v}
            d: [Fahrer bekommt keine Erde an {e}|Kein Potentialausgleich an {e}], {v}
            c: [Zange verschmutzt|Lack am Anschlusspunkt|Kabelbruch an der Tülle|Auswertegerät defekt]
            c: [TKW ohne blanken Punkt|Stecker korrodiert|Kontakt verharzt]
            m: [Kontakte blank gemacht|Zange gereinigt|Anderen Punkt am TKW genommen], {g}
            m: [Elektriker tauscht Zange|Spiralkabel erneuert|Auswertegerät gewechselt], Auftrag {o}
            m: {e} [gesperrt|außer Betrieb], [TKW umgeleitet auf andere Spur|Fahrer wartet], [E-Technik {d}|IH informiert]
            f: {e} [Erdung ging heute 3x|ein Aussetzer], {g}, [Zange liegt bereit|beobachten]
            f: {e} [noch gesperrt|Ersatzzange unterwegs], [TKW-Schlange|Disposition informiert]
            z: {e} [Erdung i.O.|wieder frei], {g}
            z: [Neue Erdungszange {e} geprüft|Erdungsprüfung {e} bestanden], {g}, [Spur frei|Sperre weg]
            q: Ableitung statischer Aufladung beim Befüllen von Straßentankwagen {place} gestört
        """),
        phrases("""
            s: {e} earthing red
            s: {e} no permissive
            s: earth clamp {e} broken
            d: {e} [earth monitor|grounding] [does not come|red|no permissive], [truck waiting|filling interlocked]
            d: [Earth clamp|Grounding clip] {e} [broken|worn out|cable crushed], resistance {v}
            d: Filling at {e} [aborts|stopped several times], [earth signal flickers|ground drops out], {v}
            d: [Driver gets no earth at {e}|No bonding at {e}], {v}
            c: [Clamp dirty|paint on the bonding point|cable broken at the grommet|monitor defective]
            c: [truck without bare point|plug corroded|contact gummed]
            m: [Contacts scraped bare|Clamp cleaned|Other point on the truck used], {g}
            m: [Electrician changes the clamp|Coil cable renewed|Monitor swapped], WO {o}
            m: {e} [blocked|out of use], [truck sent to another lane|driver waits], [electrician {d}|maintenance told]
            f: {e} [earth worked 3 times today|one dropout], {g}, [spare clamp ready|watch]
            f: {e} [still blocked|spare clamp on its way], [trucks queueing|dispatch told]
            z: {e} [earth ok|free again], {g}
            z: [New clamp {e} tested|Earth test {e} passed], {g}, [lane free|block lifted]
            q: static electricity bonding for road tanker filling unavailable {place}
        """),
    ),
    Fault(
        "steam_trap",
        ("KA",),
        "°C",
        (142, 168, 0),
        (88, 104, 0),
        phrases("""
            s: {e} bläst durch
            s: {e} staut
            s: Wasserschlag bei {e}
            d: {e} [bläst durch|schlägt durch|lässt Dampf durch], dahinter {v}
            d: [Wasserschläge|Knallen|Schlagen] in der Leitung bei {e}, [Kondensat staut|Entwässerung geht nicht]
            d: {e} [kalt|macht nicht auf], [Kondensat steht|Heizung wird nicht warm]
            d: Dampffahne [am Entspanner|über Dach] [größer|auffällig], [{e} offen|Ultraschall sagt {e}], {v}
            c: [Kugel verschlissen|Schmutz im Sitz|Kapsel gerissen|Schwimmer abgesoffen]
            c: [falsche Baugröße|Rost aus der Leitung|Gegendruck gestiegen]
            m: {e} [abgesperrt, Bypass von Hand|umgangen über Handentwässerung], [alle Stunde entwässern|Stellung markiert]
            m: [Ableiter gewechselt|Sieb gereinigt|Kapsel getauscht], [danach|jetzt] {g}
            m: [Leitung langsam entwässert|Dampf weggenommen und neu angewärmt], [keine Schläge mehr|Ruhe]
            f: {e} {v}, [bläst weiter|Handentwässerung läuft], [Ersatz {d}|Werkstatt hat Ableiter]
            f: [Entwässerung {e} pro Schicht 2x|Schläge bei {e} nur beim Anfahren], [bitte weitermachen|ok]
            z: {e} [neu|dicht], dahinter {g}
            z: [Ultraschall {e} ok|{e} leitet sauber ab], {g}, [Bypass zu|Handventil zu]
            q: wo gab es Schäden, weil Kondensat aus dem Heizdampf nicht abfließt {place}
        """),
        phrases("""
            s: {e} blowing through
            s: {e} waterlogged
            s: water hammer {e}
            d: {e} [blows through|passes live steam|stuck open], {v} behind it
            d: [Water hammer|Banging|Knocking] in the line at {e}, [condensate backs up|drain not working]
            d: {e} [cold|does not open], [condensate standing|heater not warming]
            d: Plume [at the flash tank|above the roof] [bigger|noticeable], [{e} open|ultrasound points to {e}], {v}
            c: [Ball worn|dirt in the seat|capsule cracked|float flooded]
            c: [wrong size|rust from the line|back pressure up]
            m: {e} [isolated, manual bypass|bypassed by hand drain], [drain each hour|position marked]
            m: [Trap changed|Strainer cleaned|Capsule swapped], [after|now] {g}
            m: [Line drained slowly|Steam off and warmed again], [no more hammer|quiet]
            f: {e} {v}, [still blowing|hand draining], [spare {d}|workshop has the trap]
            f: [Drained {e} twice per shift|Hammer at {e} only on start-up], [carry on please|ok]
            z: {e} [new|tight], {g} behind it
            z: [Ultrasound {e} ok|{e} drains well], {g}, [bypass shut|hand valve shut]
            q: condensate removal from heating lines not working {place}
        """),
    ),
    Fault(
        "vacuum",
        ("VP",),
        "mbar",
        (95, 260, 0),
        (18, 45, 0),
        phrases("""
            s: Vakuum schlecht {e}
            s: {e} nur {v}
            s: {e} zieht nicht
            d: Vakuum [an|mit] {e} [schlecht|kommt nicht runter], [nur|steht bei] {v}
            d: {e} [zieht nicht|bringt das Vakuum nicht], [Kolonne bei|Kopfdruck] {v}
            d: Kopfdruck [steigt|driftet], {e} [läuft auf Anschlag|am Limit], {v}, [Leckluft?|Undichtigkeit vermutet]
            d: {e} [heiß|laut], Endvakuum {v}, [Sperrwasser warm|Ringflüssigkeit verdreckt]
            c: [Leckluft an einem Mannloch|Ringwasser zu warm|Lömi in der Ringflüssigkeit|Schieber verschlissen]
            c: [Schauglasdichtung porös|Kondensator vorgeschaltet überlastet|Rückschlagklappe offen]
            m: [Leckluft gesucht mit Helium|Flansche abgesprüht], [Stelle gefunden|nichts gefunden], {v}
            m: [Ringflüssigkeit gewechselt|Sperrwasser kälter gestellt|Öl der Vakuumpumpe neu], jetzt {g}
            m: [Auf zweite Vakuumpumpe|Strahler zugeschaltet], Druck {g}
            f: Vakuum {e} {v}, [hält|wird langsam schlechter], [Drucksteigtest {d}|nochmal suchen]
            f: [Drucksteigprobe {e} {n} mbar/min|Leckrate {e} halbiert], [weiter suchen|akzeptabel]
            z: {e} {g}, [Vakuum steht|wieder gut]
            z: [Leck beseitigt|Pumpe überholt], {e} {g}, [Drucksteigtest gut|Kolonne stabil]
            q: warum kommen wir {place} nicht auf den nötigen Unterdruck?
        """),
        phrases("""
            s: {e} poor vacuum
            s: {e} only {v}
            s: {e} won't pull
            d: Vacuum [on|with] {e} [poor|does not come down], [only|stands at] {v}
            d: {e} [does not pull|can't hold vacuum], [column at|head pressure] {v}
            d: Head pressure [rising|drifting], {e} [flat out|at its limit], {v}, [air leak?|leak suspected]
            d: {e} [hot|loud], end vacuum {v}, [seal water warm|ring liquid dirty]
            c: [Air leak at a manhole|ring water too warm|solvent in the ring liquid|vanes worn]
            c: [sight glass gasket porous|upstream condenser overloaded|check valve open]
            m: [Helium leak search|Flanges sprayed], [spot found|nothing found], {v}
            m: [Ring liquid changed|Seal water colder|Vacuum pump oil new], now {g}
            m: [Second vacuum pump on|Ejector cut in], pressure {g}
            f: Vacuum {e} {v}, [holding|slowly getting worse], [pressure rise test {d}|search again]
            f: [Rise test {e} {n} mbar/min|Leak rate {e} halved], [keep searching|acceptable]
            z: {e} {g}, [vacuum stands|good again]
            z: [Leak fixed|Pump overhauled], {e} {g}, [rise test good|column stable]
            q: trouble reaching low enough absolute pressure {place}
        """),
    ),
    Fault(
        "tracing",
        ("BH",),
        "°C",
        (4, 19, 0),
        (42, 60, 0),
        phrases("""
            s: {e} aus
            s: Leitung eingefroren, {e}
            s: {e} nur {v}
            d: {e} [ohne Funktion|ausgefallen|kalt], [Leitung|Rohr] nur {v}, [Produkt wird zäh|Produkt stockt]
            d: [Leitung zu|Leitung eingefroren|Pfropfen], {e} [war aus|heizt nicht], {v}
            d: [FI gefallen|Sicherung raus|Störung] {e}, [lässt sich nicht einschalten|fällt sofort wieder]
            d: [Nachtfrost|Kälteeinbruch], {e} [schafft es nicht|kommt nicht nach], Leitung {v}
            c: [Heizband durchgebrannt|Isolierung nass|Thermostat verstellt|Kabel bei Gerüstbau beschädigt]
            c: [Dampfbegleitung abgesperrt|Ableiter der Begleitheizung zu|Regler defekt]
            m: [Mit Dampflanze aufgetaut|Leitung mit Heißwasser angewärmt|Heizmatte angelegt], [wieder durchgängig|dauert]
            m: [Elektriker misst Heizkreis|Heizband geflickt|Heizkreis umgeklemmt], [jetzt|steigt auf] {g}
            m: [Isolierung geöffnet und getrocknet|Thermostat auf {g}], [heizt wieder|FI hält]
            f: {e} {v}, [steigt|hält gerade so], [Umlauf anlassen|Produkt in Bewegung halten]
            f: [Provisorium an {e} ok|Heizmatte {e} liegt noch], [Heizband bestellt|Reparatur {d}]
            z: {e} {g}, [heizt normal|wieder ok]
            z: [Neues Heizband {e}|Heizkreis {e} geprüft], {g}, [Isolierung zu|Provisorium ab]
            q: Rohrleitung im Winter dicht, weil die Beheizung ausfiel {place}
        """),
        phrases("""
            s: {e} off
            s: line frozen, {e}
            s: {e} only {v}
            d: {e} [not working|failed|cold], [line|pipe] only {v}, [product thickening|product sets]
            d: [Line blocked|Line frozen|Plug], {e} [was off|not heating], {v}
            d: [RCD tripped|Fuse out|Fault] on {e}, [will not switch on|trips again at once]
            d: [Night frost|Cold snap], {e} [can't manage|not keeping up], line {v}
            c: [Heating cable burnt|insulation wet|thermostat misadjusted|cable hit by scaffolders]
            c: [tracing steam shut|tracing trap blocked|controller dead]
            m: [Thawed with steam lance|Line warmed with hot water|Heating mat on], [clear again|takes time]
            m: [Electrician tests the circuit|Cable patched|Circuit rewired], [now|climbing to] {g}
            m: [Insulation opened and dried|Thermostat to {g}], [heats again|RCD holds]
            f: {e} {v}, [rising|just about holding], [keep recirculating|keep product moving]
            f: [Temporary fix at {e} ok|Mat on {e} still in place], [cable ordered|repair {d}]
            z: {e} {g}, [heats normally|fine again]
            z: [New cable {e}|Circuit {e} tested], {g}, [insulation closed|temporary fix removed]
            q: pipe plugged in cold weather since warming failed {place}
        """),
    ),
    Fault(
        "filter_pressure",
        ("F",),
        "mbar",
        (620, 1800, 0),
        (60, 180, 0),
        phrases("""
            s: {e} zu
            s: dp {e} {v}
            s: {e} Filterwechsel nötig
            d: Differenzdruck {e} [hoch|über Grenze|steigt], {v}
            d: {e} [setzt sich zu|ist dicht|voll], dp {v}, [Durchsatz fällt|nur noch halbe Menge]
            d: [dp-Alarm|Filteralarm] {e} [steht|um {t}], {v}, [schon wieder|nach nur {n} Tagen]
            d: {e} [macht zu|am Ende], [Menge bricht ein|Vordruck hoch], {v}
            c: [feine Kristalle|Schlamm vom Tankboden|Rost|ungelöstes Salz|Katalysatorstaub] [als Ursache|im Filter]
            c: [falsche Feinheit eingebaut|Rohstoff trüb|Vorabscheider umgangen]
            m: [Elemente gewechselt|Beutel neu|Kerzen getauscht], dp {g}, [{n} Stück verbraucht|Lager fast leer]
            m: [Umgeschaltet auf Parallelfilter|Rückspülung gestartet], [dp|jetzt] {g}
            m: {e} [geöffnet und gespült|entleert, gereinigt], [viel Schlamm|Elemente gerissen]
            f: dp {e} {v}, [steigt wieder|langsam], [Wechsel {d}|Elemente bereitgelegt]
            f: [Standzeit {e} nur {n} h|dp {e} im Blick], [Ursache suchen|Rohstoffprobe gezogen]
            z: {e} dp {g}, [stabil|normale Standzeit]
            z: [Vorlage gereinigt, {e} bleibt frei|Rohstoff ok, {e} unauffällig], {g}
            q: Feststoffe belegen das Siebmedium, hoher Strömungswiderstand {place}
        """),
        phrases("""
            s: {e} blocked
            s: {e} dp {v}
            s: {e} change elements
            d: Differential pressure {e} [high|over limit|rising], {v}
            d: {e} [plugging|blocked|full], dp {v}, [throughput falls|half flow only]
            d: [dp alarm|Filter alarm] {e} [standing|at {t}], {v}, [again|after just {n} days]
            d: {e} [closing up|at its end], [flow collapsing|upstream pressure high], {v}
            c: [fine crystals|sludge off the tank bottom|rust|undissolved salt|catalyst dust] [to blame|in the filter]
            c: [wrong rating fitted|raw material hazy|pre-separator bypassed]
            m: [Elements changed|New bags|Cartridges swapped], dp {g}, [{n} pieces used|stores nearly out]
            m: [Swapped to the parallel one|Backwash started], [dp|now] {g}
            m: {e} [opened and rinsed|drained, cleaned], [lots of sludge|elements torn]
            f: dp {e} {v}, [rising again|slowly], [change {d}|elements laid out]
            f: [{e} lasted only {n} h|dp {e} on watch], [find the cause|raw material sampled]
            z: {e} dp {g}, [stable|normal life]
            z: [Feed vessel cleaned, {e} stays open|Raw material ok, {e} fine], {g}
            q: which filters clogged too often {place}
        """),
    ),
    Fault(
        "emission",
        ("TN", "WA"),
        "mg/m³",
        (28, 140, 0),
        (3, 14, 0),
        phrases("""
            s: {e} Grenzwert
            s: Emission {e} {v}
            s: {e} Cges hoch
            d: [Emissionswert|Cges|Abluftwert] {e} [über Grenzwert|hoch], {v}, [Halbstundenwert gerissen|Meldung läuft]
            d: {e} [reinigt nicht richtig|schafft die Fracht nicht], Reingas {v}
            d: [Nachbar klagt über Geruch|Geruch am Zaun], {e} [Reingas {v}|im Verdacht]
            d: {e} [Flamme unruhig|Brennkammer zu kalt|Waschlösung verbraucht], Austritt {v}
            c: [Lastspitze aus der Destillation|Brennerdüse verkokt|Lauge leer|Tropfenabscheider durchgeschlagen]
            c: [Verweilzeit zu kurz|Klappe offen zum Bypass|Füllkörper gesetzt]
            m: [Kammertemperatur erhöht|Stützgas hoch|Lauge nachdosiert|Waschlösung gewechselt], Reingas {g}
            m: [Betriebe gebeten, Fracht zu senken|Chargenstart verschoben|Abluft auf Reserve], [Wert fällt|jetzt {g}]
            m: [Brenner gereinigt|Düsen getauscht|Bypassklappe abgedichtet], Auftrag {o}
            f: Reingas {e} {v}, [Tagesmittel noch ok|Trend fallend]
            f: [Umweltschutz zu {e} informiert|Messung {e} wird geprüft], [Fracht bleibt klein|{g}]
            z: Reingas {e} {g}, [unter Grenzwert|Messung bestätigt]
            z: [Bericht an Behörde raus|Brenner {e} eingestellt], {g}, [erledigt|Fall geschlossen]
            q: Schadstoffausstoß am Kamin überschreitet Erlaubnis {place}
        """),
        phrases("""
            s: {e} limit exceeded
            s: {e} emission {v}
            s: {e} VOC high
            d: [Emission|VOC|Stack value] {e} [over limit|high], {v}, [half-hour value broken|report pending]
            d: {e} [does not clean properly|can't take the load], clean gas {v}
            d: [Neighbour complains of smell|Smell at the fence], {e} [clean gas {v}|suspected]
            d: {e} [flame unsteady|chamber too cold|scrubbing liquor spent], outlet {v}
            c: [Load peak from distillation|burner nozzle coked|caustic empty|mist eliminator broken through]
            c: [residence time too short|damper open to bypass|packing settled]
            m: [Chamber temperature raised|Support gas up|Caustic dosed|Liquor changed], clean gas {g}
            m: [Plants asked to cut load|Batch start postponed|Vent to standby], [falling|now {g}]
            m: [Burner cleaned|Nozzles swapped|Bypass damper sealed], WO {o}
            f: Clean gas {e} {v}, [daily mean still ok|trend down]
            f: [Environment dept told about {e}|Analyser {e} being checked], [load stays small|{g}]
            z: Clean gas {e} {g}, [below limit|confirmed]
            z: [Report to authority sent|Burner {e} tuned], {g}, [done|case closed]
            q: pollutants out of the stack beyond our permit {place}
        """),
    ),
    Fault(
        "gas_alarm",
        ("GD",),
        "% UEG",
        (11, 38, 0),
        (0, 2, 0),
        phrases("""
            s: {e} Alarm {v}
            s: Gasalarm {e}
            s: {e} ausgelöst
            d: Gasalarm {e} [um {t}|ausgelöst], {v}, [Bereich geräumt|Personal raus]
            d: {e} [meldet|zeigt] {v}, [mit Handgerät bestätigt|Handgerät zeigt nichts]
            d: [Voralarm|Hauptalarm] {e}, {v}, [Wind aus West|Geruch nach Lömi], [Suche läuft|Melder geprüft]
            d: {e} [spricht immer wieder an|flackert], [bis|um] {v}, [Leck oder Drift?|Fehlalarm?]
            c: [Entlüftung beim Abkuppeln|Stopfbuchse in der Nähe|Sensor vergiftet|Probenahme ohne Spülung]
            c: [Restprodukt im Schlauch|Autoabgas|Silikon am Sensor]
            m: [Zündquellen aus, Lüftung an|Abgesperrt und gemessen|Mit Wasserschleier abgedrängt], [Wert fällt auf|nun] {g}
            m: [Leckstelle gefunden und abgedichtet|Kupplung geschlossen|Verladung gestoppt], {g}
            m: [Sensor kalibriert|Messkopf getauscht|Prüfgas aufgegeben], [zeigt richtig|{g}]
            f: {e} [ruhig|kurz {v}], [Handmessungen laufen|Bereich bleibt gesperrt]
            f: [Messprotokoll {e} alle 30 min|Kontrolle um {e}], {g}, [keine Konzentration|noch kein Betreten]
            z: {e} {g}, [Freigabe durch Feuerwehr|Bereich wieder frei]
            z: [Kalibrierung {e} dokumentiert|Ursache {e} beseitigt], {g}, [Alarm quittiert|Betrieb läuft]
            q: zündfähige Atmosphäre festgestellt, Warnanlage schlägt an {place}
        """),
        phrases("""
            s: {e} alarm {v}
            s: gas alarm {e}
            s: {e} triggered
            d: Gas alarm {e} [at {t}|triggered], {v}, [area cleared|people out]
            d: {e} [reports|shows] {v}, [confirmed by hand-held|hand-held shows nothing]
            d: [Pre-alarm|Main alarm] {e}, {v}, [wind from west|smells of solvent], [searching|detector checked]
            d: {e} [keeps responding|flickers], [up to|around] {v}, [leak or drift?|false alarm?]
            c: [Venting while uncoupling|a gland nearby|sensor poisoned|sampling without purge]
            c: [leftover in the hose|car exhaust|silicone on the sensor]
            m: [Ignition sources off, ventilation on|Roped off and measured|Water curtain used], [down to|now] {g}
            m: [Leak found and sealed|Coupling closed|Loading stopped], {g}
            m: [Sensor calibrated|Head swapped|Test gas applied], [reads right|{g}]
            f: {e} [quiet|briefly {v}], [hand checks go on|area stays closed]
            f: [Readings near {e} every 30 min|Checked around {e}], {g}, [nothing found|no entry yet]
            z: {e} {g}, [cleared by fire brigade|area open]
            z: [Calibration {e} recorded|Cause at {e} removed], {g}, [alarm reset|operation resumed]
            q: ignitable atmosphere noticed by the warning system {place}
        """),
    ),
    Fault(
        "safety_valve",
        ("SV",),
        "bar",
        (7.2, 9.8, 1),
        (4.1, 5.9, 1),
        phrases("""
            s: {e} bläst ab
            s: {e} undicht
            s: {e} angesprochen bei {v}
            d: {e} [hat abgeblasen|angesprochen|aufgemacht], [bei|Druck war] {v}
            d: {e} [schließt nicht mehr ganz|zischt|undicht seit Ansprechen], [Ausblaseleitung warm|Reif an der Leitung]
            d: [Überdruck|Druckspitze] {v}, {e} [kurz offen|geöffnet], [wieder zu|flattert nach]
            d: [Pfeifen|Zischen] an {e}, [Betriebsdruck normal|weit unter Ansprechdruck], {g}
            c: [Sitz beschädigt|Fremdkörper im Sitz|Feder ermüdet|Druckregelung hat überschwungen]
            c: [Abnahme zu schnell zu|Prüffrist abgelaufen|Plombe fehlt]
            m: [Auf Wechselventil umgestellt|Zweites Sicherheitsventil scharf], {e} [ausgebaut|zur Werkstatt], Auftrag {o}
            m: [Druck abgesenkt auf {g}|Last reduziert], [Ventil setzt wieder|zischt nicht mehr]
            m: [Kegel eingeschliffen|Auf dem Prüfstand eingestellt|TÜV bestellt], [Ansprechdruck {v}|neu verplombt]
            f: {e} [zischt noch leicht|hält], {g}, [Wechsel {d}|Ersatz liegt im Lager]
            f: [Ausblaseleitung {e} abgefühlt|{e} stündlich abgehört], [warm|kalt, also dicht]
            z: {e} [neu eingebaut|geprüft zurück], [dicht|verplombt], {g}
            z: [Prüfbescheinigung {e} da|{e} schließt sauber], [Druck {g}|Akte zu]
            q: Ansprechen der Überdruckabsicherung {place}, danach nicht mehr dicht geworden
        """),
        phrases("""
            s: {e} blowing off
            s: {e} passing
            s: {e} lifted at {v}
            d: {e} [lifted|relieved|popped], [at|pressure was] {v}
            d: {e} [no longer reseats|hisses|passing since it lifted], [tail pipe warm|frost on the tail pipe]
            d: [Overpressure|Pressure peak] {v}, {e} [open briefly|opened], [shut again|chatters]
            d: [Whistling|Hissing] at {e}, [pressure normal|far below set pressure], {g}
            c: [Seat damaged|dirt on the seat|spring tired|pressure control overshot]
            c: [offtake closed too fast|test overdue|seal wire missing]
            m: [Changeover valve swung|Second relief in service], {e} [pulled|sent to workshop], WO {o}
            m: [Pressure lowered to {g}|Load reduced], [reseated|no more hissing]
            m: [Disc lapped|Set on the bench|Inspector called], [set pressure {v}|resealed]
            f: {e} [hisses a little|holding], {g}, [swap {d}|spare in stores]
            f: [Felt the tail pipe of {e}|Listened to {e} hourly], [warm|cold, so tight]
            z: {e} [refitted|back from test], [tight|sealed], {g}
            z: [Certificate for {e} in|{e} seats well], [pressure {g}|file closed]
            q: has overpressure protection acted {place} and failed to close properly afterwards
        """),
    ),
)

# ---------------------------------------------------------------- what all logs share

SHARED = {
    "de": phrases("""
        open: [Beim Rundgang|Auf Kontrollgang|Bei Anlagenrunde|Um {t}|Gegen {t}|Schichtbeginn] [bemerkt|aufgefallen|gesehen]:
        open: [Info|Achtung|Wichtig|Störung|Zur Kenntnis]:
        open: {t} Uhr -
        back: [Nachtrag|Zu gestern|Wg. Übergabe|Wie übergeben|Von Vorschicht|Fortsetzung|Update]:
        back: [Betr.|Zu|Thema] {e}:
        again: [Schon wieder|Erneut|Wiederholt|Gleiches Bild wie letzten Monat|Wie neulich schon|Altes Thema]:
        tell: [Schlosser|IH|Bereitschaft|Tagschicht|Werkstatt|Meister|Betriebsleiter] [informiert|verständigt|angerufen|weiß Bescheid]
        tell: [Meldung|Störmeldung|SAP-Meldung] {o} [geschrieben|angelegt|aufgegeben]
        tell: [Messwarte|Leitstand|Labor|Nachbarbetrieb] [hat Info|ist informiert|wurde angefunkt]
        wait: [Ersatzteil|Material] [bestellt|nicht auf Lager|kommt {d}|Lieferzeit {n} Tage]
        wait: [Nächste Schicht|Nachtschicht|Kollegen] bitte [weiter beobachten|im Auge behalten|mit anschauen|nachsehen]
        wait: [Freischein|Erlaubnisschein|Arbeitsschein] [liegt im Büro|noch offen|für {d} vorbereitet]
        more: [Produktion|Anlage] [lief weiter|nicht beeinträchtigt|{n} h mit Teillast|kurz unterbrochen]
        more: [Umgebung|Stelle|Arbeitsplatz] [gereinigt|abgesperrt|sauber übergeben]
        more: [Sonst|Ansonsten|Im Übrigen] [nichts Besonderes|alles ruhig|Anlage stabil]
        more: [Bild|Foto|Trend] [liegt im Ordner|an Meister geschickt|ausgedruckt]
    """),
    "en": phrases("""
        open: [On my round|During the walk|On the plant tour|At {t}|Around {t}|Start of shift] [noticed|found|saw]:
        open: [Note|Attention|Important|Fault|FYI]:
        open: {t} -
        back: [Follow-up|Re yesterday|As handed over|From last shift|Continued|Update]:
        back: [Re|About|On] {e}:
        again: [Again|Once more|Repeat|Same picture as last month|Like the other day|Old story]:
        tell: [Fitter|Maintenance|On-call|Day shift|Workshop|Foreman|Plant manager] [informed|told|called|knows]
        tell: [Notification|Fault report|SAP notification] {o} [written|raised|entered]
        tell: [Control room|Lab|Neighbour plant] [has the info|informed|was radioed]
        wait: [Spare part|Material] [ordered|not in stores|arrives {d}|lead time {n} days]
        wait: [Next shift|Night shift|Colleagues] please [keep watching|keep an eye on it|have a look|check]
        wait: [Permit|Work permit|Clearance] [is in the office|still open|prepared for {d}]
        more: [Production|Plant] [kept running|not affected|{n} h at part load|briefly interrupted]
        more: [Area|Spot|Work place] [cleaned|roped off|left tidy]
        more: [Otherwise|Apart from that|Rest of shift] [nothing special|all quiet|plant stable]
        more: [Picture|Photo|Trend] [in the folder|sent to foreman|printed]
    """),
}

ROUTINE = {
    "de": phrases("""
        any: [Rundgang|Kontrollgang|Anlagenrunde] [gemacht|erledigt] [bis {e}|rund um {e}], [o.B.|keine Auffälligkeiten|ohne Befund]
        none: [TKW|Tankwagen|Kesselwagen] mit {n}{n} t [Toluol|Methanol|Ethylacetat|Natronlauge|Aceton] [entladen|angenommen], {t} fertig
        vessel: Probe {e} [gezogen|genommen] um {t}, [Labor hat sie|Ergebnis folgt|Wert {n},{n}]
        machine: {e} auf [Reserve|Standby] [gestellt|genommen], turnusmäßiger [Wechsel|Umgang]
        vessel: [Charge|Ansatz] {o} in {e} [gestartet|angefahren|fertig], [Ausbeute {n}{n} %|nach Plan|{n} h Verzug]
        any: [Übergabe|Schichtübergabe] an [Nacht|Früh|Spät], [{n} offene Scheine|keine offenen Scheine], {e} [steht|läuft]
        machine: {e} [nachgeschmiert|Ölstand kontrolliert|Öl aufgefüllt] lt. Plan, [{n} Hub Fett|{n}00 ml]
        any: [Besuch|Begehung] [Sicherheit|Brandschutz|Auditor|Behörde] um {t}, [keine Mängel|{n} Punkte notiert] bei {e}
        any: [Gerüst|Isolierung|Beleuchtung] an {e} [aufgebaut|erneuert|bestellt], [Firma bis {d} da|Schein {o}]
        tank: Umlagerung [aus|nach] {e}, {n}{n} m³, [Beginn {t}|Ende {t}], [Menge stimmt|Differenz {n}00 l]
        vessel: {e} [gespült|gereinigt|entleert] für [Revision|Inspektion|TÜV] {d}, [freigemessen|übergeben an IH]
        none: [Wasserverbrauch|Dampfverbrauch|Stromspitze] [normal|etwas hoch], {n}{n} t, [abgelesen {t}|Liste geführt]
        any: [Notdusche|Feuerlöscher|Augendusche] bei {e} [geprüft|getestet], [i.O.|Plombe fehlt, gemeldet]
        none: Unterweisung [Ex-Schutz|Erste Hilfe|Leiter und Tritte] mit {n} Mann um {t}, [Liste im Büro|Rest {d}]
        any: {e} [angefahren|abgefahren] nach [Plan|Anweisung], [{t} stabil|ohne Probleme|hat {n} h gedauert]
        any: [Katalysator|Filterhilfsmittel|Entschäumer|Biozid] nachbestellt, [noch {n} Gebinde|Lager {n}0 %], [Lieferung {d}|Platz bei {e}]
    """),
    "en": phrases("""
        any: [Round|Walk|Plant tour] [done|completed] [as far as {e}|around {e}], [nothing found|no remarks|all fine]
        none: [Truck|Tanker|Rail car] with {n}{n} t [toluene|methanol|ethyl acetate|caustic|acetone] [unloaded|received], done {t}
        vessel: Sample {e} [taken|drawn] at {t}, [lab has it|result to follow|value {n}.{n}]
        machine: {e} [put on|set to] standby, routine [changeover|swap]
        vessel: [Batch|Campaign] {o} in {e} [started|under way|finished], [yield {n}{n} %|as planned|{n} h late]
        any: Handover to [night|early|late] shift, [{n} open permits|no open permits], {e} [down|running]
        machine: {e} [greased|oil level checked|oil topped up] per plan, [{n} strokes|{n}00 ml]
        any: [Visit|Tour] by [safety|fire dept|auditor|authority] at {t}, [no findings|{n} points noted] at {e}
        any: [Scaffold|Insulation|Lighting] at {e} [erected|renewed|ordered], [contractor here until {d}|permit {o}]
        tank: Transfer [from|into] {e}, {n}{n} m³, [start {t}|end {t}], [quantity ok|difference {n}00 l]
        vessel: {e} [flushed|cleaned|drained] for [revision|inspection|the inspector] {d}, [gas free|handed to maintenance]
        none: [Water use|Steam use|Power peak] [normal|a bit high], {n}{n} t, [read at {t}|list kept]
        any: [Safety shower|Extinguisher|Eye wash] near {e} [checked|tested], [ok|seal missing, reported]
        none: Training [Ex protection|first aid|ladders] with {n} people at {t}, [list in the office|rest on {d}]
        any: {e} [started up|shut down] per [plan|instruction], [stable by {t}|no problems|took {n} h]
        any: [Catalyst|Filter aid|Antifoam|Biocide] reordered, [{n} drums left|stock {n}0 %], [delivery {d}|room near {e}]
    """),
}

JARGON = {  # proper word: what the shop floor writes
    "de": {
        "Lösungsmittel": "Lömi",
        "Kühlwasser": "KW",
        "Pumpe": "Pu",
        "Wärmetauscher": "WT",
        "Temperatur": "Temp",
        "Stickstoff": "N2",
        "Gleitringdichtung": "GLRD",
        "Differenzdruck": "dp",
        "Sicherheitsventil": "SiV",
        "Instandhaltung": "IH",
        "informiert": "inform.",
        "kontrolliert": "kontr.",
        "gereinigt": "gerein.",
        "Betriebsleiter": "BL",
        "Messwarte": "MW",
        "Elektriker": "E-Tech",
        "Auftrag": "Auftr.",
        "und": "u.",
        "nicht": "ned",
        "wieder": "wd.",
        "vermutlich": "verm.",
        "wahrscheinlich": "wahrsch.",
        "beobachten": "beob.",
        "Vorlauf": "VL",
        "Rücklauf": "RL",
    },
    "en": {
        "cooling water": "CW",
        "Cooling water": "CW",
        "pressure": "press",
        "temperature": "temp",
        "nitrogen": "N2",
        "Nitrogen": "N2",
        "maintenance": "maint",
        "Maintenance": "Maint",
        "replaced": "repl",
        "changed": "chgd",
        "checked": "chkd",
        "cleaned": "clnd",
        "control room": "CR",
        "level": "lvl",
        "and": "&",
        "please": "pls",
        "solvent": "solv",
        "Solvent": "Solv",
        "with": "w/",
        "without": "w/o",
        "vibration": "vib",
        "suspected": "susp",
        "differential": "diff",
        "position": "pos",
        "Notification": "Notif",
    },
}

ROUTINE_KINDS = {  # what a routine log of each sort is about
    "any": ("P", "W", "G", "F", "B", "R", "K", "C", "T", "FS", "DK"),
    "machine": ("P", "G", "RW", "VP"),
    "vessel": ("R", "B", "K", "T"),
    "tank": ("T", "B"),
}
SHIFTS = {"F": 6, "S": 14, "N": 22}  # early, late, night: the hour each begins
DAYS = {
    "de": ("Mo", "Di", "Mi", "Do", "Fr", "Montag", "Dienstag", "nächste Woche"),
    "en": ("Mon", "Tue", "Wed", "Thu", "Fri", "Monday", "Tuesday", "next week"),
}
UMLAUTS = {"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss"}
UNITS_IN_ENGLISH = {"Tropfen/min": "drops/min", "KBE/ml": "cfu/ml", "% UEG": "% LEL"}

# ---------------------------------------------------------------- other plants

LETTERS: tuple[dict[str, str], ...] = (  # of codes: as in plant 1, and in other plants
    {},
    dict(
        pair.split("=")
        for pair in """P=GA W=EA V=CV G=GB RW=AG F=FL LI=LT TI=TT SV=PSV VP=VA KA=ST GD=AE BH=HT B=D K=TW R=RX C=KC KT=CT
        BB=BA T=TK FS=LB DK=BO TN=TO WA=SC""".split()
    ),
    dict(
        pair.split("=")
        for pair in """P=PU W=WT V=RV G=GE RW=RK F=FI LI=LA TI=TA SV=SI VP=VK KA=KD GD=GW BH=EH B=BE K=KO R=RE C=VD KT=RT
        BB=AB T=LT FS=LS DK=KE TN=NV WA=WS""".split()
    ),
)
SECTION_CODES = (  # in the order of SECTIONS
    tuple(SECTIONS),
    ("RXN", "DIS", "REC", "CMP", "CWS", "WWT", "TFM", "LDG", "UTL", "VGT"),
    ("B10", "B20", "B25", "B30", "B40", "B50", "B60", "B65", "B70", "B80"),
)
TRADES = (  # what other plants make
    ("Pharmawirkstoffe", "pharmaceutical ingredients"),
    ("Lackharze", "coating resins"),
    ("Spezialpolymere", "specialty polymers"),
    ("Pflanzenschutz", "crop protection"),
    ("Riechstoffe", "fragrances"),
)
OTHER_JARGON = {  # proper word: what the shop floors of other plants write
    "de": {
        "Lösungsmittel": ("LM", "Solvens", "Lsg.mittel"),
        "Kühlwasser": ("KüWa", "Kühlw.", "Kühle"),
        "Pumpe": ("Pp.", "Pmp", "Förderer"),
        "Wärmetauscher": ("Tauscher", "Wtausch.", "WÜ"),
        "Temperatur": ("T°", "Tmp", "Wärme"),
        "Stickstoff": ("Stick", "Inertgas", "Stickst."),
        "Gleitringdichtung": ("Gleitring", "Gleiri", "Wellendichtung"),
        "Differenzdruck": ("Diffdruck", "Delta-p", "DiDru"),
        "Sicherheitsventil": ("SV", "Sich.-Ventil", "Abblaser"),
        "Instandhaltung": ("Technik", "Insth.", "Werkstatt"),
        "informiert": ("info", "Bescheid", "verst."),
        "kontrolliert": ("ktr.", "gecheckt", "angeschaut"),
        "gereinigt": ("sauber", "gepuzt", "geputzt"),
        "Betriebsleiter": ("Chef", "BetrLtr", "Ltg."),
        "Messwarte": ("Warte", "Leitst.", "Meßw."),
        "Elektriker": ("Elo", "EMSR", "Elektr."),
        "Auftrag": ("Schein", "AU", "Auftrg"),
        "und": ("+", "&", "un"),
        "nicht": ("nich", "net", "n."),
        "wieder": ("wied.", "erneut", "nochmal"),
        "vermutlich": ("vmtl.", "wohl", "evtl."),
        "wahrscheinlich": ("wohl", "warsch.", "vllt."),
        "beobachten": ("beobacht.", "schauen", "dranbleiben"),
        "Vorlauf": ("Vorl.", "Zulauf", "Vlf"),
        "Rücklauf": ("Rückl.", "Rlf", "Retour"),
    },
    "en": {
        "cooling water": ("cool wtr", "C/W", "tower water"),
        "pressure": ("prs", "P.", "pres."),
        "temperature": ("tmp", "T", "temps"),
        "nitrogen": ("nitro", "inert", "N-two"),
        "maintenance": ("mtce", "mech", "MNT"),
        "replaced": ("rplcd", "swapped", "renewed"),
        "changed": ("chg'd", "swopped", "exch"),
        "checked": ("ckd", "looked at", "verified"),
        "cleaned": ("cln'd", "washed", "scrubbed"),
        "control room": ("ctrl rm", "DCS", "panel"),
        "level": ("LVL", "lev", "hgt"),
        "and": ("+", "n", "plus"),
        "please": ("plz", "pl.", "kindly"),
        "solvent": ("slv", "svt", "solvt"),
        "vibration": ("vibes", "vibr", "shaking"),
        "suspected": ("suspct", "poss.", "prob."),
        "differential": ("dP", "delta", "diffl"),
        "position": ("posn", "psn", "setting"),
    },
}

Unit = tuple[str, str, tuple[tuple[str, str, str], ...]]  # kind, number, and kind, German and English name of its parts


@dataclass(frozen=True)
class Site:
    """What distinguishes one plant from another."""

    number: int
    german: str  # what it makes
    english: str
    log_prefix: str
    sections: dict[str, tuple[str, str, str, str]]
    units: dict[str, tuple[Unit, ...]]  # by section
    letters: dict[str, str]  # kind of equipment: letters of its codes, where they are others
    hundred: int  # plates of the third section begin with 3 times this
    words: dict[str, tuple[str, str]]
    jargon: dict[str, dict[str, str]]
    faults: tuple[Fault, ...]
    shared: dict[str, Phrases]
    routine: dict[str, Phrases]


def parts_of(kind: str) -> tuple[tuple[str, str, str], ...]:
    """Kind, German and English name of each part of a unit."""
    parts: list[tuple[str, str, str]] = []
    for part in re.split(r";|\n", EQUIPMENT[kind][2]):
        letters, names = part.split(maxsplit=1)
        german, english = names.strip().split("|")
        parts.append((letters, german, english))
    return tuple(parts)


def first_site() -> Site:
    """Plant 1: every section, fault and phrase."""

    def unit(code: str) -> Unit:
        kind, number = re.fullmatch(r"([A-Z]+)(\d+)", code).groups()  # type: ignore[union-attr]
        return kind, number, parts_of(kind)

    units = {section: tuple(map(unit, codes.split())) for section, codes in UNITS.items()}
    return Site(
        1, "Feinchemie", "fine chemicals", "SB-", SECTIONS, units, {}, 100, WORDS, JARGON, FAULTS, SHARED, ROUTINE
    )


def other_site(number: int) -> Site:
    """A plant with sections, equipment, codes, jargon, faults and phrases of its own; the number decides on all."""
    randomness = random.Random(f"plant {number}")
    german, english = TRADES[(number - 2) % len(TRADES)]
    codes = SECTION_CODES[number % len(SECTION_CODES)]
    letters = LETTERS[randomness.randrange(len(LETTERS))] if number > 3 else LETTERS[number - 1]
    names = list(SECTIONS)
    present = sorted(
        randomness.sample(range(len(names)), randomness.randrange(6, 9)), key=lambda _: randomness.random()
    )
    sections = {codes[place]: SECTIONS[names[place]] for place in present}
    units: dict[str, tuple[Unit, ...]] = {}
    hundred = randomness.choice((100, 1000))
    for position, place in enumerate(present, 1):
        kinds = [re.sub(r"\d", "", unit) for unit in UNITS[names[place]].split()]
        chosen = [randomness.choice(kinds) for _ in range(randomness.randrange(3, 6))]
        first = position * hundred + randomness.randrange(1, 6) * 10
        units[codes[place]] = tuple(
            (kind, str(first + count), some(parts_of(kind), 0.75, randomness)) for count, kind in enumerate(chosen)
        )
    equipment = {part for own in units.values() for kind, _, parts in own for part in (kind, *(p[0] for p in parts))}
    faults = [
        replace(fault, kinds=there)
        for fault in FAULTS
        if (there := tuple(kind for kind in fault.kinds if kind in equipment))
    ]
    dialect = {language: {word: randomness.choice(forms) for word, forms in table.items()}
               for language, table in OTHER_JARGON.items()}  # fmt: skip
    words = {
        kind: tuple(" ".join(some(names.split(), 0.7, randomness)) for names in both) for kind, both in WORDS.items()
    }
    return Site(
        number,
        german,
        english,
        f"S{number}-",
        sections,
        units,
        letters,
        hundred,
        words,  # type: ignore[arg-type]
        dialect,
        tuple(
            replace(fault, de=habits(fault.de, randomness), en=habits(fault.en, randomness))
            for fault in some(faults, 0.85, randomness)
        ),
        {language: habits(patterns, randomness) for language, patterns in SHARED.items()},
        {language: habits(patterns, randomness) for language, patterns in ROUTINE.items()},
    )


def some(items: Sequence[Any], share: float, randomness: random.Random) -> tuple[Any, ...]:
    """A random share of the items, at least one, in random order."""
    return tuple(randomness.sample(items, max(1, round(share * len(items)))))


def habits(patterns: Phrases, randomness: random.Random) -> Phrases:
    """Most of the patterns of each part, and of the choices in each pattern; questions stay as they are."""

    def fewer(choice: re.Match[str]) -> str:
        return f"[{'|'.join(some(choice[1].split('|'), 0.8, randomness))}]"

    return {
        part: list(texts)
        if part == "q"
        else [re.sub(r"\[([^\[\]]*)\]", fewer, text) for text in some(texts, 0.75, randomness)]
        for part, texts in patterns.items()
    }


def site(number: int) -> Site:
    """The plant of a number, from 1."""
    return first_site() if number == 1 else other_site(number)


# ---------------------------------------------------------------- who writes, and how


@dataclass(frozen=True)
class Author:
    """The language and the habits of one author, which make two logs of the same event differ."""

    initials: str
    language: str
    length: int  # 0 terse, 1 plain, 2 wordy
    spellings: tuple[int, int]  # of codes
    joint: str  # between two clauses
    typos: float  # share of words
    jargon: float  # share of words that have a short form
    umlauts: bool
    lower: bool  # writes all in lower case


@dataclass
class Log:
    """A log and its true links; `id` is assigned when all logs are in order."""

    date: datetime.datetime
    author: Author
    text: str
    place: Place | None
    fault: Fault | None = None
    related: Log | None = None
    id: str = ""
    location: str = ""  # as its author filled it in
    related_given: bool = True


def hire(randomness: random.Random) -> list[Author]:
    initials = [first + second for first in "abdfhkmprs" for second in "eglntwz"]
    randomness.shuffle(initials)
    return [
        Author(
            initials=name,
            language="de" if position % 5 < 3 else "en",
            length=position % 7 % 3,
            spellings=(randomness.randrange(9), randomness.randrange(9)),
            joint=randomness.choice((". ", ". ", ", ", "; ", " - ", " / ", "... ")),
            typos=randomness.choice((0.0, 0.01, 0.02, 0.05)),
            jargon=randomness.choice((0.0, 0.2, 0.5, 0.9)),
            umlauts=randomness.random() < 0.75,
            lower=randomness.random() < 0.15,
        )
        for position, name in enumerate(initials[:40])
    ]


def expand(pattern: str, randomness: random.Random) -> str:
    """The pattern with each `[a|b]` decided, innermost first."""
    while choice := re.search(r"\[([^\[\]]*)\]", pattern):
        chosen = randomness.choice(choice[1].split("|"))
        pattern = pattern[: choice.start()] + chosen + pattern[choice.end() :]
    return re.sub(r" +", " ", pattern).replace(" ,", ",").strip()


def spell(site: Site, place: Place, author: Author, randomness: random.Random) -> str:
    """The equipment as this author writes it: by its plate, its location or its name."""
    german = author.language == "de"
    code = place.letters + place.number
    unit, tail = place.id.split("-")[2], place.id.split("-")[3:4]
    local = f"{unit}-{tail[0]}" if tail else unit
    words = site.words[place.kind][0 if german else 1].split()
    name = place.german if german else place.english
    spellings = (
        code,
        f"{place.letters}-{place.number}",
        f"{place.letters} {place.number}",
        f"{randomness.choice(words)} {place.number}",
        f"{words[0]} {place.number}",
        local,
        f"{tail[0]} {'an' if german else 'on'} {unit}" if tail else f"{place.section} {unit}",
        f"{name} {code}",
        f"{name} {unit}",
    )
    style = randomness.choice(author.spellings) if randomness.random() < 0.8 else randomness.randrange(9)
    return place.id if randomness.random() < 0.02 else spellings[style]


def measured(low: float, high: float, digits: int, unit: str, author: Author, randomness: random.Random) -> str:
    number = f"{randomness.uniform(low, high):.{digits}f}"
    if author.language == "de":
        number = number.replace(".", ",")
    else:
        unit = UNITS_IN_ENGLISH.get(unit, unit)
    if unit == "pH":
        return f"pH {number}"
    return f"{number}{unit}" if randomness.random() < 0.2 else f"{number} {unit}"


def fill(
    pattern: str, site: Site, place: Place | None, fault: Fault | None, author: Author, randomness: random.Random
) -> str:
    """The pattern with its choices made and its slots filled."""
    text = expand(pattern, randomness)
    while slot := re.search(r"\{(\w)\}", text):
        match slot[1]:
            case "e" if place:
                value = spell(site, place, author, randomness)
            case "v" if fault:
                value = measured(*fault.bad, fault.unit, author, randomness)
            case "g" if fault:
                value = measured(*fault.good, fault.unit, author, randomness)
            case "t":
                value = f"{randomness.randrange(24)}:{randomness.randrange(60):02}"
            case "o":
                value = str(randomness.randrange(4_000_000, 4_999_999))
            case "n":
                value = str(randomness.randrange(2, 10))
            case "d":
                value = randomness.choice(DAYS[author.language])
            case other:
                raise ValueError(f"no slot {other!r} in {pattern!r}")
        text = text[: slot.start()] + value + text[slot.end() :]
    return text


def mistype(word: str, randomness: random.Random) -> str:
    at = randomness.randrange(1, len(word) - 2)
    match randomness.randrange(4):
        case 0:
            return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
        case 1:
            return word[:at] + word[at + 1 :]
        case 2:
            return word[:at] + word[at] + word[at:]
        case _:
            return word[:at] + randomness.choice("enrtsai") + word[at + 1 :]


def scrawl(text: str, site: Site, author: Author, randomness: random.Random) -> str:
    """The text as the author writes it: abbreviations, typos, missing umlauts."""
    for proper, short in site.jargon[author.language].items():
        if randomness.random() < author.jargon:
            text = re.sub(rf"\b{proper}\b", short, text)
    text = re.sub(
        r"\b[^\W\d_]{5,}\b",
        lambda word: mistype(word[0], randomness) if randomness.random() < author.typos else word[0],
        text,
    )
    if not author.umlauts:
        for umlaut, letters in UMLAUTS.items():
            text = text.replace(umlaut, letters)
    return text.lower() if author.lower else text


def compose(
    stage: str, site: Site, fault: Fault, place: Place, author: Author, again: bool, randomness: random.Random
) -> str:
    """A log of one stage of an incident: d detected, m measure, f follow-up, z closed."""
    own = fault.de if author.language == "de" else fault.en
    shared = site.shared[author.language]
    terse = author.length == 0
    main = "s" if stage == "d" and randomness.random() < (0.7, 0.2, 0)[author.length] else stage
    clauses = [randomness.choice(own[main])]
    chances = {  # of a further clause, for a terse, a plain and a wordy author
        "d": (
            ("c", (0.1, 0.4, 0.7)),
            ("m", (0.05, 0.3, 0.6)),
            ("tell", (0.1, 0.3, 0.7)),
            ("wait", (0, 0.15, 0.5)),
        ),
        "m": (
            ("c", (0.1, 0.4, 0.7)),
            ("tell", (0, 0.2, 0.4)),
            ("wait", (0.05, 0.25, 0.5)),
            ("more", (0, 0.1, 0.4)),
        ),
        "f": (
            ("c", (0, 0.1, 0.3)),
            ("m", (0, 0.15, 0.4)),
            ("wait", (0.05, 0.3, 0.6)),
            ("more", (0, 0.1, 0.4)),
        ),
        "z": (("c", (0, 0.15, 0.5)), ("tell", (0, 0.1, 0.4)), ("more", (0, 0.25, 0.7))),
    }
    clauses += [
        randomness.choice((own if part in own else shared)[part])
        for part, chance in chances[stage]
        if randomness.random() < chance[author.length]
    ]
    if len(clauses) > 2 and randomness.random() < 0.25:
        clauses[1:] = randomness.sample(clauses[1:], len(clauses) - 1)
    texts = [fill(clause, site, place, fault, author, randomness) for clause in clauses]
    if author.joint == ". ":
        texts = [text[0].upper() + text[1:] for text in texts]
    text = author.joint.join(texts) + ("." if author.joint == ". " and not terse else "")
    lead = ""
    if again:
        lead = randomness.choice(shared["again"])
    elif stage == "d" and randomness.random() < (0.05, 0.25, 0.5)[author.length]:
        lead = randomness.choice(shared["open"])
    elif stage != "d" and "{e}" not in "".join(clauses) and randomness.random() < 0.6:
        lead = "{e}:" if terse else "[Betr. |Wg. |]{e}:" if author.language == "de" else "[Re |]{e}:"
    elif stage != "d" and randomness.random() < (0.05, 0.2, 0.4)[author.length]:
        lead = randomness.choice(shared["back"])
    if lead:
        text = f"{fill(lead, site, place, fault, author, randomness)} {text}"
    return scrawl(text, site, author, randomness)


# ---------------------------------------------------------------- what happens

BEGIN = datetime.datetime(2023, 1, 2, 6)
DAYS_OF_RECORD = 480
INCIDENT_SHARE = 0.76  # of all logs; the others are routine
WITHHELD_SHARE = 0.3  # of the links between logs


def stages(randomness: random.Random) -> str:
    """One letter per log of an incident; short incidents are never closed."""
    length = randomness.choices(range(1, 7), weights=(16, 22, 26, 20, 11, 5))[0]
    if length == 1:
        return "d"
    between = "m" + "".join(randomness.choices("fm", weights=(3, 2), k=length - 2))
    closed = length > 2 and randomness.random() < 0.85
    return "d" + (between[:-1] + "z" if closed else between)


def happen(
    site: Site, places: Sequence[Place], authors: Sequence[Author], count: int, randomness: random.Random
) -> list[Log]:
    """`count` logs in order of time."""
    by_id = {place.id: place for place in places}
    by_kind: dict[str, list[Place]] = defaultdict(list)
    for place in places:
        by_kind[place.kind].append(place)
    logs: list[Log] = []
    last: dict[tuple[str, str], Log] = {}  # of the latest incident of a fault at a place
    minutes = DAYS_OF_RECORD * 24 * 60
    wanted = round(count * INCIDENT_SHARE)
    courses: list[str] = []
    while sum(map(len, courses)) < wanted:
        courses.append(stages(randomness)[: wanted - sum(map(len, courses))])
    begins = sorted(randomness.sample(range(minutes), len(courses)))
    for number, (course, begin) in enumerate(zip(courses, begins, strict=True)):
        if last and randomness.random() < 0.25:  # some equipment is a patient for years
            name, code = randomness.choice(sorted(last))
            fault, place = next(fault for fault in site.faults if fault.name == name), by_id[code]
        else:
            fault = site.faults[number % len(site.faults)]
            place = randomness.choice([place for kind in fault.kinds for place in by_kind[kind]])
        date = BEGIN + datetime.timedelta(minutes=begin)
        before = last.get((fault.name, place.id))
        related = before if before and before.date < date and randomness.random() < 0.6 else None
        incident: list[Log] = []
        for stage in course:
            free = [author for author in authors if not incident or author is not incident[-1].author]
            author = randomness.choice(free)
            text = compose(stage, site, fault, place, author, stage == "d" and related is not None, randomness)
            truth = by_id.get(f"{place.id}-M1", place) if fault.motor else place
            incident.append(Log(date, author, text, truth, fault, related))
            related = incident[0 if randomness.random() < 0.15 else -1]
            date += datetime.timedelta(minutes=randomness.randrange(240, 480 * randomness.randrange(1, 5) + 1))
        logs += incident
        last[fault.name, place.id] = incident[-1]
    while len(logs) < count:
        author = randomness.choice(authors)
        sorts = site.routine[author.language]
        sort = randomness.choice([name for name, patterns in sorts.items() for _ in patterns])
        pattern = expand(randomness.choice(sorts[sort]), randomness)
        kind = randomness.choice([kind for kind in ROUTINE_KINDS.get(sort, ("P",)) if by_kind[kind]] or ["P"])
        about = randomness.choice(by_kind[kind]) if "{e}" in pattern else None
        text = scrawl(fill(pattern, site, about, None, author, randomness), site, author, randomness)
        date = BEGIN + datetime.timedelta(minutes=randomness.randrange(minutes))
        logs.append(Log(date, author, text, about))
    logs.sort(key=lambda log: log.date)  # stable, and within an incident time moves on
    return logs


def hand_in(site: Site, logs: Sequence[Log], places: Sequence[Place], randomness: random.Random) -> None:
    """Assign ids, and fill in the columns as authors do: not always, and not always correctly."""
    siblings: dict[str, list[str]] = defaultdict(list)
    for place in places:
        siblings[place.parent].append(place.id)
    number = 240_000
    for log in logs:
        number += randomness.randrange(1, 5)
        log.id = f"{site.log_prefix}{number}"
        log.related_given = randomness.random() >= WITHHELD_SHARE
        chance = randomness.random()
        if log.place is None or chance < 0.18:
            log.location = ""
        elif chance < 0.30:
            log.location = log.place.parent
        elif chance < 0.34:
            log.location = f"PL{site.number}-{log.place.section}"
        elif chance < 0.37:
            log.location = randomness.choice(siblings[log.place.parent])
        else:
            log.location = log.place.id


# ---------------------------------------------------------------- what is asked


@dataclass(frozen=True)
class Query:
    """A query about a fault at a location, and the grade of each log that answers it."""

    text: str
    grades: dict[str, int]  # log id: 2 this fault there, 1 this fault elsewhere


def ask(site: Site, logs: Sequence[Log], randomness: random.Random, count: int = 40) -> list[Query]:
    """Up to `count` queries; the second query about a fault is in the other language, about another location."""
    queries: list[Query] = []
    asked: set[tuple[str, str]] = set()
    faults = randomness.sample(site.faults, len(site.faults))
    for position, fault in enumerate([*faults, *faults]):
        language = ("de", "en")[(position + position // len(faults) * (len(faults) % 2 == 0)) % 2]
        reports = [log for log in logs if log.fault is fault and log.place]
        detections = [log.place for log in reports if log.place and log.related is None]
        sections = Counter(place.section for place in detections)
        wheres = sections if len(sections) > 1 else Counter(place.unit for place in detections)
        usual = [where for where, times in sorted(wheres.items()) if times > 1] or sorted(wheres)
        usual = [where for where in usual if (fault.name, where) not in asked]
        if not usual or len(queries) == count:
            continue
        where = randomness.choice(usual)
        asked.add((fault.name, where))
        own = fault.de if language == "de" else fault.en
        text = own["q"][0].replace("{place}", say(site, where, language)).replace(" , ", ", ")
        grades = {log.id: 2 if log.place and where in (log.place.section, log.place.unit) else 1 for log in reports}
        queries.append(Query(text, grades))
    return queries


def say(site: Site, where: str, language: str) -> str:
    """A section or a unit as a query names it."""
    if where in site.sections:
        return site.sections[where][2 if language == "de" else 3]
    letters, number = re.fullmatch(r".*-([A-Z]+)(\d+)", where).groups()  # type: ignore[union-attr]
    kind = next((kind for kind, own in site.letters.items() if own == letters), letters)
    word = site.words[kind][0 if language == "de" else 1].split()[0]
    return f"bei {word} Nr. {number}" if language == "de" else f"at {word} no. {number}"


# ---------------------------------------------------------------- files


def describe(place: Place, randomness: random.Random) -> str:
    """The description in the hierarchy, in German, English or both, with the plate if there is one."""
    plate = f" {place.letters}{place.number}" if place.kind not in ("", "M") else ""
    match randomness.choices("geb", weights=(6, 3, 1))[0]:
        case "g":
            return place.german + plate
        case "e":
            return place.english + plate
        case _:
            return f"{place.german}{plate} ({place.english})"


def write_table(path: Path, rows: Sequence[Sequence[str]], delimiter: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, delimiter=delimiter, lineterminator="\n").writerows(rows)


def make_logs(site: Site, count: int, randomness: random.Random) -> tuple[list[Log], list[Place]]:
    """The logs of a plant with their true faults and places, and all places."""
    places = build_plant(site)
    logs = happen(site, places, hire(randomness), count, randomness)
    hand_in(site, logs, places, randomness)
    return logs, places


def random_of(seed: int, plant: int) -> random.Random:
    return random.Random(seed if plant == 1 else f"{seed}, plant {plant}")


def generate(folder: Path, logs: int = 3000, seed: int = 7, plant: int = 1) -> None:
    """Write logs.csv, hierarchy.csv, withheld.tsv, queries.jsonl and qrels/test.tsv below `folder`."""
    randomness = random_of(seed, plant)
    own = site(plant)
    written, places = make_logs(own, logs, randomness)
    queries = ask(own, written, randomness)
    table = [["id", "date", "shift", "author", "language", "location", "related", "text"]]
    withheld = [["log", "relation", "target"]]
    for log in written:
        hour = log.date.hour
        shift = max((name for name in SHIFTS if SHIFTS[name] <= hour), key=SHIFTS.__getitem__, default="N")
        related = log.related.id if log.related and log.related_given else ""
        date = log.date.isoformat(timespec="minutes")
        author = log.author
        table.append([log.id, date, shift, author.initials, author.language, log.location, related, log.text])
        if log.related and not related:
            withheld.append([log.id, "related_to", log.related.id])
        if log.place and log.place.id != log.location:
            withheld.append([log.id, "reports_about", log.place.id])
    tree = [["id", "parent", "description"]]
    tree += [[place.id, place.parent, describe(place, randomness)] for place in places]
    names = [f"q{number:02}" for number in range(1, len(queries) + 1)]
    qrels = [["query-id", "corpus-id", "score"]]
    qrels += [
        [name, log, str(grade)]
        for name, query in zip(names, queries, strict=True)
        for log, grade in query.grades.items()
    ]
    write_table(folder / "logs.csv", table, ",")
    write_table(folder / "hierarchy.csv", tree, ",")
    write_table(folder / "withheld.tsv", withheld, "\t")
    write_table(folder / "qrels" / "test.tsv", qrels, "\t")
    lines = [
        json.dumps({"_id": name, "text": query.text}, ensure_ascii=False) + "\n"
        for name, query in zip(names, queries, strict=True)
    ]
    (folder / "queries.jsonl").write_text("".join(lines), encoding="utf-8", newline="")


def repetition(texts: Sequence[str], words: int = 5) -> tuple[float, float]:
    """The share of texts that repeat an earlier one, and the mean share of word n-grams that another text has too.

    Case and punctuation do not matter, and for the n-grams all words with a digit are the same: a copy with
    another code or value is still a copy. Texts with fewer than `words` words have no n-grams.
    """
    spoken = [re.findall(r"\w+", text.lower()) for text in texts]
    repeats = 1 - len({" ".join(text) for text in spoken}) / len(texts)
    masked = [["0" if re.search(r"\d", word) else word for word in text] for text in spoken]
    grams = [{tuple(text[at : at + words]) for at in range(len(text) - words + 1)} for text in masked]
    owners = Counter(gram for own in grams for gram in own)
    shares = [sum(owners[gram] > 1 for gram in own) / len(own) for own in grams if own]
    return repeats, sum(shares) / max(len(shares), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the shift logs of an invented chemical plant.")
    parser.add_argument("folder", type=Path, help="folder to write to")
    parser.add_argument("--logs", type=int, default=3000, help="number of logs")
    parser.add_argument("--seed", type=int, default=7, help="random seed")
    parser.add_argument("--plant", type=int, default=1, help="number of the plant, from 1; each has its own vocabulary")
    options = parser.parse_args()
    if options.plant < 1:
        parser.error("plants are numbered from 1")
    if options.logs < 1:
        parser.error("--logs needs at least 1")
    generate(options.folder, options.logs, options.seed, options.plant)
    with (options.folder / "logs.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    twice, shared = repetition([row["text"] for row in rows])
    german = sum(row["language"] == "de" for row in rows) / len(rows)
    print(f"{len(rows)} logs in {options.folder}, {german:.1%} German")
    print(f"{twice:.2%} exact repeats; {shared:.1%} of a log's word 5-grams stand in another log too")


if __name__ == "__main__":
    main()
