"""The closed list of findings: every condition that spoils training, as data.

Documentation, JSON, the report and the terminal all take their words from here. A slug is part of the
interface and never changes. Codes and default policies follow the hazard catalogue (docs/hazards.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum


class Policy(StrEnum):
    """What becomes of a record (or file, or run) with a finding."""

    QUARANTINE = "quarantine"
    REPAIR = "repair"
    FLAG = "flag"
    ERROR = "error"  # stops the run before any record is read


class Severity(StrEnum):
    """What the condition does to a training run that is not protected from it."""

    CRASH = "crash"  # device-side assert, CUBLAS error, exception
    SILENT = "silent"  # trains on garbage, NaN loss, lost content
    QUALITY = "quality"  # worth knowing, harmless to the run


class Scope(StrEnum):
    """What a finding is about; a schema sets policies for record findings only."""

    RECORD = "record"
    FILE = "file"
    RUN = "run"


@dataclass(frozen=True, slots=True)
class Facts:
    """What is said of one reason.

    ``template`` is formatted with ``found`` and ``expected``; ``remedy`` says what to do; ``options`` are the
    policies a schema may choose instead of ``default``.
    """

    slug: str
    title: str
    template: str
    remedy: str
    severity: Severity
    default: Policy
    options: tuple[Policy, ...]
    scope: Scope


_Q, _R, _F, _E = Policy.QUARANTINE, Policy.REPAIR, Policy.FLAG, Policy.ERROR
_CRASH, _SILENT, _QUALITY = Severity.CRASH, Severity.SILENT, Severity.QUALITY


def _record(
    slug: str, title: str, template: str, remedy: str, severity: Severity, default: Policy, *options: Policy
) -> Facts:
    return Facts(slug, title, template, remedy, severity, default, options, Scope.RECORD)


def _file(slug: str, title: str, template: str, remedy: str, default: Policy = _E) -> Facts:
    return Facts(
        slug, title, template, remedy, _CRASH if default is _E else _QUALITY, default, (), Scope.FILE
    )


def _run(slug: str, title: str, template: str, remedy: str) -> Facts:
    return Facts(slug, title, template, remedy, _SILENT, _E, (), Scope.RUN)


# fmt: off
class Reason(Enum):
    """One member a condition; ``reason.facts`` carries its words, ``Reason.of(slug)`` finds it."""

    # ── files ────────────────────────────────────────────────────────────────────────────────────────────
    FILE_UNREADABLE = _file("file_unreadable", "File cannot be read", "cannot be read as {expected}: {found}", "repair or replace the file, or exclude it in the schema's `files`")
    FILE_ENCODING = _file("file_encoding", "Encoding not declared", "bytes that are not {expected}: {found}", "declare the encoding under `read: encodings:` or save the file as UTF-8")
    FILE_LIMIT = _file("file_limit", "Reader limit exceeded", "needs {found}, the limit is {expected}", "raise the limit under `read: limits:` if the file is trusted, or split it")
    FILE_EMPTY = _file("file_empty", "File holds no record", "holds {found}, expected {expected}", "remove the file or put the data in", _F)
    FILE_CHANGED = _file("file_changed", "File changed while it was read", "changed while it was read: {found}", "run again when nothing writes into the raw folder")
    FILE_PATH_ESCAPE = _file("file_path_escape", "Link leaves the raw folder", "points outside the raw folder: {found}", "copy the file into the raw folder; links that leave it are refused")
    FILE_UNCLAIMED = _file("file_unclaimed", "No schema claims the file", "no schema's `files` pattern matches (closest: {expected})", "add a pattern to a schema's `files`, or list the file under `ignore`", _F)
    FILE_LITTER = _file("file_litter", "Not an input", "skipped: {found}", "nothing to do", _F)
    FILE_IMAGES = _file("file_images", "Page images beside the data", "holds files that records may refer to: {found}", "nothing to do", _F)
    HEADER_MISSING = _file("header_missing", "Expected columns not found", "no header row with {expected}; found {found}", "correct the header, declare `read: header:`, or map the columns in the schema")
    HEADER_DUPLICATE = _file("header_duplicate", "Column name twice in the header", "the column {found} stands twice in the header", "rename one of the two columns in the file")
    SHEET_MISSING = _file("sheet_missing", "Declared sheet not found", "no sheet {expected}; the workbook has {found}", "correct `read: sheets:` or the workbook")
    SHEET_HIDDEN = _file("sheet_hidden", "Hidden sheet skipped", "hidden sheet skipped: {found}", "name the sheet under `read: sheets:` to read it", _F)
    SHEET_UNREAD = _file("sheet_unread", "Visible sheet not read", "visible sheets not read: {found}", "name them under `read: sheets:`, or declare `sheets: visible`", _F)
    JSON_ARRAY_INVALID = _file("json_array_invalid", "JSON document does not parse", "{found}, expected {expected}", "repair the document at that place; records before it are not trusted")

    # ── records as read ──────────────────────────────────────────────────────────────────────────────────
    ROW_RAGGED = _record("row_ragged", "Wrong number of fields", "{found} fields, expected {expected}", "quote the field that holds the delimiter, or complete the row", _SILENT, _Q)
    QUOTE_UNCLOSED = _record("quote_unclosed", "Quote never closed", "a quote opens and never closes: {found}", "close or double the quote", _SILENT, _Q)
    QUOTE_STRAY = _record("quote_stray", "Text after a closing quote", "text after a closing quote: {found}", "double the quotes inside the field", _SILENT, _Q)
    LINE_FORMAT = _record("line_format", "Line does not have the declared format", "{found}, expected {expected}", "correct the line or `read: line_format:`", _CRASH, _Q)
    LINE_TOO_LONG = _record("line_too_long", "Record over the size limit", "{found} bytes, the limit is {expected}", "raise `read: limits: record_mb`, or split the record", _CRASH, _Q)
    JSON_INVALID = _record("json_invalid", "Broken JSON", "{found}", "repair the line; it is kept as read in the quarantine", _CRASH, _Q)
    JSON_NOT_OBJECT = _record("json_not_object", "Record is not a JSON object", "a JSON {found}, expected an object", "write one object a record", _CRASH, _Q)
    JSON_DUPLICATE_KEY = _record("json_duplicate_key", "Key twice in one object", "the key {found} stands twice", "keep one of the two values; readers disagree on which wins", _SILENT, _Q)
    JSON_NON_FINITE = _record("json_non_finite", "NaN or Infinity literal", "the literal {found} is not JSON", "write null or a number", _CRASH, _Q)
    JSON_INTEGER_OVERFLOW = _record("json_integer_overflow", "Integer beyond 64 bits", "{found} does not fit 64 bits", "write it as text, or correct the number", _CRASH, _Q)
    JSON_TOO_DEEP = _record("json_too_deep", "JSON nested too deeply", "nested {found} deep, the limit is {expected}", "flatten the record", _CRASH, _Q)
    CELL_ERROR = _record("cell_error", "Spreadsheet error cell", "the cell shows {found}", "correct the formula or clear the cell", _SILENT, _Q)
    CELL_FORMULA_EMPTY = _record("cell_formula_empty", "Formula without a stored value", "a formula without a stored value", "open and save the workbook in a spreadsheet program", _SILENT, _Q, _F)
    CELL_JSON_INVALID = _record("cell_json_invalid", "Cell does not hold the JSON it should", "{found}, expected {expected}", "write valid JSON into the cell; Python's repr is not JSON", _CRASH, _Q)
    CELL_ESCAPE_DECODED = _record("cell_escape_decoded", "Spreadsheet escape decoded", "_x000D_-style escapes decoded", "nothing to do", _QUALITY, _R)
    CELL_TRUNCATED_AT_SOURCE = _record("possibly_truncated_at_source", "Cell at the spreadsheet's limit", "exactly {found} characters, the most a cell can hold", "look at the end of the text", _QUALITY, _F, _Q)
    MERGED_CELL_FILLED = _record("merged_cell_filled", "Merged area filled", "filled from the anchor of its merged area", "nothing to do", _QUALITY, _R)
    GROUP_KEY_MISSING = _record("group_key_missing", "Row without its group key", "the group key {expected} is blank", "fill the key column", _SILENT, _Q)
    GROUP_INCONSISTENT = _record("group_inconsistent", "Rows of one group disagree", "{found} within one group, expected one value", "make the column constant within the group", _SILENT, _Q)

    # ── values ───────────────────────────────────────────────────────────────────────────────────────────
    VALUE_MISSING = _record("value_missing", "Required value missing", "missing, expected {expected}", "fill the value or declare the column optional", _CRASH, _Q)
    VALUE_TYPE = _record("value_type", "Value of the wrong type", "found {found}, expected {expected}", "correct the value or the column's `type`", _CRASH, _Q)
    VALUE_AS_SHOWN = _record("value_as_shown", "Value taken as shown", "{found} taken as text", "nothing to do", _QUALITY, _R, _Q)
    INTEGER_FROM_DECIMAL = _record("integer_from_decimal", "Whole number with a decimal point", "{found} taken as an integer", "nothing to do", _QUALITY, _R, _Q)
    VALUE_NOT_FINITE = _record("value_not_finite", "NaN or infinity", "found {found}, expected a finite number", "correct or clear the value", _CRASH, _Q)
    VALUE_OUT_OF_RANGE = _record("value_out_of_range", "Number out of range", "found {found}, expected {expected}", "correct the value or the range in the schema", _SILENT, _Q, _F)
    VALUE_NOT_ALLOWED = _record("value_not_allowed", "Value outside the list", "found {found}, expected one of {expected}", "correct the value or add it to `allowed`", _SILENT, _Q, _F)
    TEXT_BLANK = _record("text_blank", "Blank text", "blank, expected text", "fill the text or declare `blank: allow`", _SILENT, _Q)
    TEXT_TOO_SHORT = _record("text_too_short", "Text too short", "{found} characters, expected at least {expected}", "correct the text or `min_characters`", _QUALITY, _Q, _F)
    TEXT_TOO_LONG = _record("text_too_long", "Text too long", "{found} characters, expected at most {expected}", "shorten the text or raise `max_characters`", _QUALITY, _Q, _F)
    TEXT_PATTERN = _record("text_pattern", "Text does not match its pattern", "does not match {expected}", "correct the text or the `pattern`", _QUALITY, _Q, _F)
    TEXT_INVALID_UNICODE = _record("text_invalid_unicode", "Lone surrogate, NUL or U+FFFD", "holds {found}", "restore the text from its source; opt in to `repair` to replace or strip", _CRASH, _Q, _R)
    MOJIBAKE_SUSPECTED = _record("mojibake_suspected", "Doubly encoded text", "looks doubly encoded ({found})", "decode the file with its true encoding; opt in to `repair` for a proven round trip", _QUALITY, _F, _R, _Q)
    DUPLICATE_ROW = _record("duplicate_row", "Same content again", "same content as {found}", "keep one; opt in to `quarantine` for all but the first", _QUALITY, _F, _Q)
    TRAIN_EVAL_OVERLAP = _record("train_eval_overlap", "Content is also in the evaluation split", "same content as {found} in the evaluation split", "remove it from one of the two", _SILENT, _Q, _F)

    # ── documents ────────────────────────────────────────────────────────────────────────────────────────
    BBOX_OUT_OF_PAGE = _record("bbox_out_of_page", "Box past the page", "box {found} lies beyond the page {expected}", "correct the box, the page size or the declared unit", _CRASH, _Q)
    BBOX_CLIPPED = _record("bbox_clipped", "Box clipped to the page", "box {found} clipped within the tolerance", "nothing to do", _QUALITY, _R, _Q)
    BBOX_NOT_FINITE = _record("bbox_not_finite", "Box holds no finite number", "coordinate {found}, expected a finite number", "correct the coordinate", _CRASH, _Q)
    BBOX_INVERTED = _record("bbox_inverted", "Inverted box", "box {found} has x1 < x0 or y1 < y0", "check `order` (xywh read as xyxy?) and `origin`; opt in to `repair` to sort corners", _CRASH, _Q, _R)
    BBOX_ZERO_AREA = _record("bbox_zero_area", "Box without area", "box {found} has no width or no height", "correct the box; opt in to `repair` to drop the word with its label", _SILENT, _Q, _R)
    BBOX_ARITY = _record("bbox_arity", "Box with the wrong count of numbers", "{found} numbers, expected {expected}", "correct the box or declare its `order` (quad, polygon)", _CRASH, _Q)
    BBOX_UNPARSED = _record("bbox_unparsed", "Boxes do not parse", "{found}, expected {expected}", "write boxes as JSON lists of numbers", _CRASH, _Q)
    BBOX_UNIT_SUSPECT = _record("bbox_unit_suspect", "Page geometry cannot be right", "{found}, expected {expected}", "correct the declared unit, order, origin or page size", _SILENT, _Q, _F)
    PAGE_SIZE_INVALID = _record("page_size_invalid", "Page size invalid", "page size {found}, expected two positive numbers", "give the page's width and height in the unit of its boxes", _CRASH, _Q)
    WORDS_BOXES_MISMATCH = _record("words_boxes_mismatch", "Words and boxes differ in number", "{found}, expected as many boxes as words", "never cut to the shorter list: find the lost word or box", _SILENT, _Q)
    WORDS_LABELS_MISMATCH = _record("words_labels_mismatch", "Words and labels differ in number", "{found}, expected as many labels as words", "never cut to the shorter list: find the lost word or label", _SILENT, _Q)
    WORD_EMPTY = _record("word_empty", "Blank word", "blank word {found}", "nothing to do: dropped with its box and label, unless a B- label would orphan an I-", _SILENT, _R, _Q)
    WORD_DROPPED = _record("word_dropped", "Declared pseudo-word dropped", "word matches `drop_words`", "nothing to do: dropped with its box and label", _QUALITY, _R)
    WORD_TRIMMED = _record("word_trimmed", "White space around a word removed", "white space around the word", "nothing to do", _QUALITY, _R, _Q)
    WORD_NOT_TEXT = _record("word_not_text", "Word is not text", "found {found}, expected text", "write words as text; opt in to `repair` to take numbers as shown", _CRASH, _Q, _R)
    WORD_CONTROL_TOKEN = _record("word_control_token", "Control token as a word", "spells {found}", "nothing to do: encoded as plain text", _SILENT, _R, _Q)
    DOC_EMPTY = _record("doc_empty", "Page without words", "no words left, expected at least one", "remove the page or run OCR again", _SILENT, _Q)
    LABEL_UNKNOWN = _record("label_unknown", "Label outside the list", "unknown label {found}, expected one of {expected}", "correct the label or add it to `labels: names`", _CRASH, _Q)
    LABEL_CASE_FOLDED = _record("label_case_folded", "Label spelled in another case", "{found} read as {expected}", "nothing to do; spell labels as in `labels: names`", _QUALITY, _R, _Q)
    LABEL_OUT_OF_RANGE = _record("label_out_of_range", "Label id out of range", "label id {found}, expected {expected}", "label ids count from 0; use -100 for 'no label'", _CRASH, _Q)
    LABEL_NOT_INTEGER = _record("label_not_integer", "Label id is no integer", "label {found}, expected an integer", "write label ids as integers, or declare `names`", _CRASH, _Q)
    LABEL_ALL_IGNORED = _record("label_all_ignored", "Nothing to learn", "every label is -100, expected at least one to learn", "label the page or remove it", _SILENT, _Q)
    LABEL_SCHEME_INVALID = _record("label_scheme_invalid", "BIO order broken", "{found}, expected {expected}", "start each entity with B-", _QUALITY, _F, _Q)
    ANSWER_INVALID = _record("answer_invalid", "Answer is no span of the page", "words {found}, expected {expected}", "give the places, from 0, of the answer's first and last word, or neither", _SILENT, _Q)
    ANSWER_OUTSIDE_WINDOW = _record("answer_outside_window", "Answer in no single window", "words {found} are in no one window", "raise `window: max_tokens` or `stride`", _QUALITY, _F, _Q)
    TOKEN_TYPE_OUT_OF_RANGE = _record("token_type_out_of_range", "Token type out of range", "token type {found}, expected {expected}", "use the family's token types", _CRASH, _Q)
    IMAGE_MISSING = _record("image_missing", "Image not found", "no file {found} in the raw folder", "put the image there or correct its path", _CRASH, _Q)
    IMAGE_PATH_ESCAPE = _record("image_path_escape", "Image path leaves the raw folder", "the path leaves the raw folder", "use a path inside the raw folder", _CRASH, _Q)
    IMAGE_TRUNCATED = _record("image_truncated", "Image cut off", "the image data ends early: {found}", "fetch the image again", _CRASH, _Q)
    IMAGE_UNDECODABLE = _record("image_undecodable", "Image does not decode", "does not decode: {found}", "replace the image", _CRASH, _Q)
    IMAGE_TOO_LARGE = _record("image_too_large", "Image over the pixel limit", "{found} pixels, the limit is {expected}", "scale the image down or raise `image: max_pixels`", _CRASH, _Q)
    IMAGE_CONVERTED = _record("image_converted", "Image converted to RGB", "converted from {found}", "nothing to do", _QUALITY, _R)
    IMAGE_ORIENTED = _record("image_oriented", "Image turned upright", "EXIF orientation {found} applied", "nothing to do", _QUALITY, _R)
    IMAGE_SIZE_MISMATCH = _record("image_size_mismatch", "Image and page size disagree", "image {found}, page {expected}", "swapped sides, or another page's size: correct width and height", _SILENT, _Q, _F)
    IMAGE_RESOLUTION = _record("image_resolution", "Image of another resolution", "image {found}, page {expected}, same aspect", "nothing to do if boxes are in the page's unit", _QUALITY, _F, _Q)

    # ── chats ────────────────────────────────────────────────────────────────────────────────────────────
    CONTENT_EMPTY = _record("content_empty", "Empty turn", "{found}, expected text", "fill the turn or remove the row", _SILENT, _Q)
    CONTENT_NOT_TEXT = _record("content_not_text", "Turn is not text", "found {found}, expected text", "write the turn as text", _SILENT, _Q)
    CONTENT_AS_SHOWN = _record("content_as_shown", "Number taken as shown", "the number {found} taken as text", "nothing to do", _QUALITY, _R, _Q)
    CONTENT_PARTS_JOINED = _record("content_parts_joined", "Text parts joined", "{found} text parts joined", "nothing to do", _QUALITY, _R, _Q)
    CONTENT_UNSUPPORTED_PART = _record("content_unsupported_part", "Image or audio part in a text set", "a part of type {found}, expected text", "remove the part or use a multimodal set-up", _SILENT, _Q)
    CONVERSATION_EMPTY = _record("conversation_empty", "Conversation without turns", "no turns", "remove the row", _SILENT, _Q)
    NO_USER_TURN = _record("no_user_turn", "No user turn", "no user turn", "check the roles and their aliases", _SILENT, _Q)
    NO_ASSISTANT_TURN = _record("no_assistant_turn", "No assistant turn", "no assistant turn", "check the roles and their aliases", _SILENT, _Q)
    ROLE_UNKNOWN = _record("role_unknown", "Role outside the list", "role {found}, expected one of {expected}", "correct the role or declare an alias", _SILENT, _Q)
    ROLE_ORDER = _record("role_order", "Turns out of order", "{found}, expected {expected}", "correct the turns; opt in to `repair` to merge turns of the same role", _SILENT, _Q, _R)
    LAST_TURN_NOT_ASSISTANT = _record("last_turn_not_assistant", "Last turn is not the assistant's", "the last turn is {found}", "add the answer; opt in to `repair` to drop the trailing turn", _SILENT, _Q, _R)
    TURNS_MERGED = _record("turns_merged", "Turns of one role merged", "{found} turns merged", "nothing to do", _QUALITY, _R)
    TURN_DROPPED = _record("turn_dropped", "Trailing turn dropped", "a trailing {found} turn dropped", "nothing to do", _QUALITY, _R)
    TOOL_CALL_INVALID = _record("tool_call_invalid", "Tool call and result do not match", "{found}", "give every call its result and JSON arguments", _SILENT, _Q)
    CONTROL_TOKEN_IN_CONTENT = _record("control_token_in_content", "Control token in the text", "spells {found}", "nothing to do: encoded as plain text, proven by ids", _SILENT, _R, _Q)
    ALREADY_RENDERED = _record("already_rendered", "Text is a rendered chat", "starts with or holds {found}", "give the turns, not the rendered text", _SILENT, _Q)
    THINK_TAGS_UNBALANCED = _record("think_tags_unbalanced", "Reasoning never closed", "{found}, expected as many closing as opening tags", "close each <think> with </think>", _SILENT, _Q, _F)
    TEMPLATE_DROPS_CONTENT = _record("template_drops_content", "Template loses or invents text", "{found}", "use a template that renders every turn", _SILENT, _Q)
    TEMPLATE_REFUSED = _record("template_refused", "Template refuses the conversation", "the template raised: {found}", "correct the turns to what the template takes", _CRASH, _Q)
    BOS_DOUBLED = _record("bos_doubled", "More than one start token", "{found} start tokens, expected {expected}", "do not add special tokens to rendered text", _SILENT, _Q)
    BOS_MISSING = _record("bos_missing", "Start token missing", "no start token, expected one", "use the model's own template", _SILENT, _Q)
    EOS_NOT_SUPERVISED = _record("eos_not_supervised", "End of turn not learned", "{found}", "put the end-of-turn token inside the mask", _SILENT, _Q)
    MASK_MISALIGNED = _record("mask_misaligned", "Mask is not the assistant's text", "{found}", "use a template with generation markers", _SILENT, _Q)
    NO_SUPERVISED_TOKENS = _record("no_supervised_tokens", "Nothing to learn", "no supervised token after the shift", "check roles, `train` flags and length", _SILENT, _Q)
    PREFERENCE_IDENTICAL = _record("preference_identical", "Chosen equals rejected", "chosen and rejected are the same", "remove the pair", _SILENT, _Q, _F)
    SEQUENCE_TOO_LONG = _record("sequence_too_long", "Cut or windowed to the limit", "{found} tokens, the limit is {expected}", "nothing to do; raise the limit if the model allows it", _QUALITY, _R, _Q)
    TOO_LONG_FOR_TARGET = _record("too_long_for_target", "Answer does not fit the limit", "{found} tokens, the limit is {expected}", "shorten the text, raise `max_tokens`, or opt in to `too_long: truncate_prompt`", _SILENT, _Q)
    PROMPT_TRUNCATED = _record("prompt_truncated", "Prompt cut to fit", "{found} prompt tokens dropped", "nothing to do", _QUALITY, _F)
    ANSWER_TRUNCATED = _record("answer_truncated", "Answer cut to fit", "{found} answer tokens dropped, no end-of-turn", "raise `max_tokens`", _QUALITY, _F)
    TURNS_TRUNCATED = _record("turns_truncated", "Oldest turns dropped to fit", "{found} oldest turns dropped", "nothing to do", _QUALITY, _R)
    SEQUENCE_TOO_SHORT = _record("sequence_too_short", "Fewer than two tokens", "{found} tokens, expected at least 2", "remove the row", _SILENT, _Q)
    TOKEN_OUT_OF_VOCAB = _record("token_out_of_vocab", "Token id out of range", "token id {found}, expected {expected}", "resize the embedding (`resize_token_embeddings`) or use the model's own tokenizer", _CRASH, _Q)
    LENGTHS_MISMATCH = _record("lengths_mismatch", "Sequences differ in length", "{found}, expected equal lengths", "write input_ids, labels and attention_mask of one length", _CRASH, _Q)
    ATTENTION_EMPTY = _record("attention_empty", "Attention mask all zero", "attention mask {found}, expected ones", "remove the row", _SILENT, _Q)
    PIXELS_NOT_FINITE = _record("pixels_not_finite", "Pixels not finite", "{found}", "replace the image", _SILENT, _Q)

    # ── the run ──────────────────────────────────────────────────────────────────────────────────────────
    TEMPLATE_MISSING = _run("template_missing", "No chat template", "no chat template in {found}", "name one under `chat: template:`")
    TEMPLATE_MISMATCH = _run("template_mismatch", "Template of another model", "{found}, expected {expected}", "use the template of this tokenizer's model")
    TEMPLATE_TIME_DEPENDENT = _run("template_time_dependent", "Template renders today's date", "the rendering changes with the date", "pin the date under `chat: template: date:`")
    TEMPLATE_UNPROVEN = _run("template_unproven", "Template cannot be trusted", "{found}, expected {expected}", "use a template with generation markers that renders every turn")
    TOKENIZER_MODEL_MISMATCH = _run("tokenizer_model_mismatch", "Tokenizer and model disagree", "{found}, expected {expected}", "resize the embedding (`resize_token_embeddings`) or use the model's own tokenizer")
    # fmt: on

    @property
    def facts(self) -> Facts:
        """The words and defaults of this reason."""
        return self.value

    @property
    def slug(self) -> str:
        """The stable code, as it stands in shards, certificates and schemas."""
        return self.value.slug

    @classmethod
    def of(cls, slug: str) -> Reason:
        """Find a reason by its code; raises ``KeyError`` for an unknown one."""
        return _BY_SLUG[slug]

    def message(self, found: str = "", expected: str = "") -> str:
        """What was found and expected, in words."""
        return self.value.template.format(found=found, expected=expected)


_BY_SLUG: dict[str, Reason] = {reason.slug: reason for reason in Reason}
