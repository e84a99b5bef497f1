"""Clinical sentences, each with its explanation in plain language."""

SYSTEM = "You explain clinical sentences to patients in plain, exact language."

PAIRS: tuple[tuple[str, str], ...] = (
    (
        "The patient presents with acute dyspnoea on exertion.",
        "The patient suddenly becomes short of breath during physical effort.",
    ),
    (
        "Blood pressure 168/94 mmHg, confirmed on the second reading.",
        "The blood pressure is clearly too high, and a second measurement gave the same result.",
    ),
    (
        "No known drug allergies.",
        "As far as anyone knows, no medicine has ever caused an allergic reaction.",
    ),
    (
        "Amoxicillin 500 mg p.o. t.i.d. for seven days.",
        "Take one 500 mg amoxicillin capsule by mouth three times a day for one week.",
    ),
    (
        "HbA1c 8.1 %, up from 7.2 % six months ago.",
        "The long-term blood sugar has risen from 7.2 to 8.1 percent in half a year: the diabetes is less well "
        "controlled.",
    ),
    (
        "Bilateral lower-limb oedema, pitting, to mid-calf.",
        "Both legs are swollen up to the middle of the calf, and a pressed finger leaves a dent.",
    ),
    (
        "ECG shows sinus rhythm without ST elevation.",
        "The heart tracing shows a regular beat and no sign of an acute heart attack.",
    ),
    (
        "Chest X-ray: consolidation in the right lower lobe.",
        "The X-ray shows a dense area at the bottom of the right lung, which fits a pneumonia.",
    ),
    (
        "Patient denies chest pain, palpitations or syncope.",
        "The patient reports no chest pain, no racing heart and no fainting.",
    ),
    (
        "Laparoscopic cholecystectomy without complications.",
        "The gallbladder was removed by keyhole surgery, and nothing went wrong.",
    ),
    (
        "Wound edges well approximated, no erythema or discharge.",
        "The edges of the wound meet well; it is not red and nothing comes out of it.",
    ),
    (
        "Creatinine 142 µmol/l, eGFR 44 ml/min.",
        "The kidneys filter the blood at a bit less than half of the usual rate.",
    ),
    (
        "Follow-up MRI in three months.",
        "Another scan of the same region is planned for three months from now.",
    ),
    (
        "Discontinue ibuprofen because of gastric irritation.",
        "Stop taking ibuprofen, since it irritates the stomach.",
    ),
    (
        "Reduced visual acuity in the left eye, 0.4 uncorrected.",
        "The left eye sees clearly less than normal when no glasses are worn.",
    ),
    (
        "Mild normocytic anaemia, ferritin within range.",
        "There are slightly too few red blood cells, but the iron stores are fine.",
    ),
    (
        "Patient ambulates independently with a walking frame.",
        "The patient can walk without help when using a walking frame.",
    ),
    (
        "Negative Lasègue sign on both sides.",
        "Lifting the straight legs causes no nerve pain, so a trapped nerve in the back is unlikely.",
    ),
    (
        "Temperature 38.9 °C, tachycardia 112/min.",
        "The patient has a fever of almost 39 degrees, and the heart beats fast.",
    ),
    (
        "Metformin increased to 1,000 mg b.i.d.",
        "The dose of metformin is now one gram, taken twice a day.",
    ),
    (
        "Abdomen soft, non-tender, bowel sounds present.",
        "The belly is soft and does not hurt when pressed, and the gut is working.",
    ),
    (
        "Fracture of the distal radius, dorsally displaced.",
        "The forearm bone is broken near the wrist, and the broken end has moved towards the back of the hand.",
    ),
    (
        "Oxygen saturation 91 % on room air.",
        "The blood carries somewhat too little oxygen when the patient breathes normal air.",
    ),
    (
        "Thyroid-stimulating hormone suppressed, free T4 raised.",
        "The thyroid gland produces too much hormone.",
    ),
    (
        "Recurrent urinary tract infections, three episodes this year.",
        "The patient has had a bladder infection three times this year.",
    ),
    (
        "Colonoscopy complete to the caecum; one sessile polyp removed.",
        "The whole large bowel was inspected, and one flat growth was taken out.",
    ),
    (
        "Postprandial epigastric pain radiating to the back.",
        "After meals there is a pain in the upper belly that spreads to the back.",
    ),
    (
        "INR 2.4, within the therapeutic range.",
        "The blood thinner is working exactly as strongly as intended.",
    ),
    (
        "The lesion measures 6 × 4 mm with regular borders.",
        "The spot is six by four millimetres and has an even edge.",
    ),
    (
        "Patient is alert and oriented to person, place and time.",
        "The patient is awake and knows who and where they are and what day it is.",
    ),
    (
        "Salbutamol inhaler two puffs as needed, maximum eight per day.",
        "Breathe in two puffs of the inhaler when needed, but never more than eight in one day.",
    ),
    (
        "Sleep hygiene discussed; no hypnotics prescribed.",
        "We talked about habits that help with sleep, and no sleeping pills were given.",
    ),
    (
        "Cervical spine range of motion limited in rotation to the right.",
        "The neck cannot be turned as far to the right as it should.",
    ),
    (
        "Vaccination status complete according to the national schedule.",
        "All recommended vaccinations have been given.",
    ),
    (
        "Rash resolved after the antibiotic was changed.",
        "The skin rash went away once another antibiotic was used.",
    ),
    (
        "Nil by mouth from midnight before the procedure.",
        "Do not eat or drink anything after midnight on the day before the operation.",
    ),
)
