"""Workbooks, as the sandboxed child reads them, with the standard library, numpy, pyarrow and fastexcel only.

Zipped XML (.xlsx, .xlsm) has its own parser, because training needs what spreadsheet libraries lose: every digit of a
long number, small fractions, the number format of a date, escapes, formulas without a stored value, a file with one bad
cell, and memory that does not grow with the sheet. The other formats (.xls, .xlsb, .ods) go through fastexcel.

    tasks          what the parent asks for: inspect a workbook, read a sheet
    archive        the format of the bytes; parts, relationships and sheets of a zipped workbook
    sheet          a sheet of zipped XML, a chunk of rows at a time
    fast_cells     cells of a chunk as programs usually write them, by arrays of its tags (``xml_tags``)
    any_cells      cells of any well-formed XML, by a parser (``xml``)
    strings        shared strings, escapes, and tables of strings
    number_format  stored values as the text that the sheet shows
    rows           cells, their texts, and rows with their cells by column
    other_formats  sheets of .xls, .xlsb and .ods
"""
