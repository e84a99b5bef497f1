"""Workbooks, as the sandboxed child reads them: standard library, numpy, pyarrow and fastexcel only.

Zipped XML (.xlsx, .xlsm) is read by our own parser, because what training needs is not what a spreadsheet library
gives: every digit of a long number, small fractions, the number format of a date, escapes, formulas that have no
stored value, one bad cell without losing the file, and memory that does not grow with the sheet. The other formats
(.xls, .xlsb, .ods) go through fastexcel.

    container   which format the bytes are
    package     parts, relationships and sheets of a zipped workbook
    tokens      XML tags of a chunk as arrays
    rows        cells of a chunk of rows as programs usually write them; exact: of any well-formed XML
    heads       opening tags of rows and cells; content: what stands inside of cells
    shared      the table of shared texts
    styles      which number formats are dates
    flat        texts as one run of bytes
    texts       stored values → the text that a reader of the sheet sees; numerals: numbers
    pool, placed  texts taken by index; cells with their texts, and what is wrong with them
    block       rows with their cells by column
    xlsx        a sheet of zipped XML, as blocks
    calamine    a sheet of any other format; xlsb: what it does not tell of .xlsb
    tasks       what the child is asked: inspect, read
"""
