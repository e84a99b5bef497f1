"""Support chats of an invented ferry line and an invented power company, as (system, turns)."""

FERRY = "You are the service desk of Nordsund Ferries. Answer briefly and name the next step."
POWER = "You are the service desk of Lumenfeld Power. Answer briefly and name the next step."

Chat = tuple[str, tuple[str, ...]]

CHATS: tuple[Chat, ...] = (
    (
        FERRY,
        (
            "Can I take my bicycle on the evening crossing?",
            "Yes. Bicycles travel on the car deck and cost 6 euros. Please add one to your booking before 4 p.m.",
        ),
    ),
    (
        FERRY,
        (
            "I missed the 7:40 boat. Is my ticket lost?",
            "No. A single ticket is valid on every boat of the same day. The next one leaves at 9:15.",
            "And if that one is full?",
            "Then we put you on the 11:50 free of charge. Please wait at gate 2.",
        ),
    ),
    (
        FERRY,
        (
            "Do you take dogs?",
            "Dogs are welcome on the open deck and in the blue lounge, on a lead.",
        ),
    ),
    (
        "",
        (
            "How long does the crossing take?",
            "About 85 minutes, a little longer in strong wind.",
            "Is there food on board?",
            "Yes, the galley serves hot meals until half an hour before arrival.",
        ),
    ),
    (
        POWER,
        (
            "My bill is twice as high as last year. Why?",
            "Your meter was estimated last year and read this year. The difference covers both periods.",
            "Can I pay it in parts?",
            "Yes. Choose up to six monthly parts under “Payments”. There is no extra charge.",
        ),
    ),
    (
        POWER,
        (
            "The power is out in Harbour Street.",
            "A cable was damaged at the corner of Mill Lane. We expect supply to be back by 18:30.",
        ),
    ),
    (
        POWER,
        (
            "How do I read the meter?",
            "Press the button until the display shows 1.8.0, then note the number before the comma.",
        ),
    ),
    (
        "",
        (
            "I am moving out on the 31st. What do you need from me?",
            "The final meter reading, the date, and your new address for the last bill.",
        ),
    ),
    (
        POWER,
        (
            "Ist der Tarif „Abendrot“ noch verfügbar?",
            "Ja, bis Ende des Quartals. Danach gilt der Preis aus dem neuen Blatt.",
            "Danke, dann wechsle ich jetzt.",
            "Sehr gern. Sie finden den Wechsel im Konto unter „Vertrag“.",
        ),
    ),
    (
        FERRY,
        (
            "¿Hay descuento para grupos?",
            "Sí, desde diez personas el billete cuesta un quince por ciento menos.",
        ),
    ),
    (
        FERRY,
        (
            "My booking shows the wrong date.",
            "I can change it once for free. Which day do you need?",
            "The 14th, same time.",
            "Done. You will get a new confirmation within a few minutes.",
        ),
    ),
    (
        POWER,
        (
            "Does the app work without an account?",
            "No, but outages are shown on the public map as well.",
        ),
    ),
)
