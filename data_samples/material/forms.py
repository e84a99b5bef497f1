"""Words of business forms: what stands on an invoice, a delivery note, an incident report or a sample request."""

ORGANISATIONS = (
    "Nordsund Ferries",
    "Lumenfeld Power",
    "Alder & Reed Paper Works",
    "Kestrel Bay Laboratory",
    "Havelmoor Logistik GmbH",
    "Quarry Hill Bakery",
    "Tidewater Instruments Ltd.",
    "Bréval Emballages S.A.",
)
PLACES = ("Harbour Street 12", "Mill Lane 4", "Am Alten Speicher 7", "Station Road 81", "Quai du Phare 3")
TOWNS = ("Port Elmer", "Neuwerder", "Greyford", "Saint-Brion", "Ostby")
ROLES = ("Purchasing", "Quality control", "Shift lead", "Warehouse", "Front desk")
ITEMS = (
    "Corrugated boxes A3",
    "Filter paper 150 mm",
    "Rye flour type 1150",
    "Pressure gauge 0-16 bar",
    "Deck paint, grey",
    "Sample vials 20 ml",
    "Pallet hire",
    "Cable ties, black",
    "Kartonhüllen, groß",
    "Ruban adhésif",
)
TITLES = ("INVOICE", "DELIVERY NOTE", "INCIDENT REPORT", "SAMPLE REQUEST")
KEYS: dict[str, tuple[str, ...]] = {
    "INVOICE": ("Invoice No.", "Date", "Customer", "Address", "Item", "Quantity", "Total due"),
    "DELIVERY NOTE": ("Order No.", "Delivered on", "Recipient", "Address", "Item", "Quantity", "Received by"),
    "INCIDENT REPORT": ("Report No.", "Date", "Site", "Address", "Equipment", "Count", "Reported by"),
    "SAMPLE REQUEST": (
        "Request No.",
        "Needed by",
        "Laboratory",
        "Address",
        "Material",
        "Quantity",
        "Requested by",
    ),
}
NOTES = (
    "Payment within thirty days without deduction.",
    "Goods remain our property until paid in full.",
    "Please check the delivery at once and note any damage.",
    "Return this form to the front desk.",
    "Form 27-B, revised.",
)
LABELS = ("O", "B-HEADER", "I-HEADER", "B-KEY", "I-KEY", "B-VALUE", "I-VALUE")
