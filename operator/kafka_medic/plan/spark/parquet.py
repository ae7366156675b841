"""Parquet in pieces that tasks read and write by themselves, column by column, on any filesystem that Arrow knows.

Which rows are a piece follows the files alone, so equal files give equal blocks on any cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

__all__ = ["Piece", "block_rows", "blocks_of", "pieces_of", "row_in_file", "write_piece"]

BATCH = 1 << 16


@dataclass(frozen=True)
class Piece:
    """Row groups of one file, one after another; first: rows before them in the file."""

    uri: str
    path: str
    groups: tuple[int, ...]
    first: int
    rows: int


def pieces_of(uri: str, size: int) -> list[Piece]:
    """The pieces of a file, or of all files of a directory by name: row groups until there are `size` rows. Only
    footers are read. Raises OSError, pa.ArrowException."""
    filesystem, root = pyarrow.fs.FileSystem.from_uri(uri)
    paths = [root]
    if filesystem.get_file_info(root).type == pyarrow.fs.FileType.Directory:
        listed = filesystem.get_file_info(pyarrow.fs.FileSelector(root, recursive=True))
        paths = sorted(file.path for file in listed if file.is_file and file.base_name[0] not in "._")
    pieces: list[Piece] = []
    for path in paths:
        footer = pq.ParquetFile(filesystem.open_input_file(path)).metadata
        groups: list[int] = []
        first = rows = 0
        if not footer.num_row_groups:
            pieces.append(Piece(uri, path, (), 0, 0))
        for group in range(footer.num_row_groups):
            groups.append(group)
            rows += footer.row_group(group).num_rows
            if rows >= size or group == footer.num_row_groups - 1:
                pieces.append(Piece(uri, path, tuple(groups), first, rows))
                groups, first, rows = [], first + rows, 0
    return pieces


def blocks_of(pieces: Sequence[Piece], columns: Sequence[str], size: int | None) -> Iterator[pa.Table]:
    """The rows of the pieces in blocks of about `size`, equal in size (None: all in one); at least one block. Topics
    are a dictionary, so that each name is read once."""
    rows = sum(piece.rows for piece in pieces)
    each = max(rows, 1) if size is None else block_rows(rows, size)
    waiting: list[pa.Table] = []
    held = 0
    for piece in pieces:
        for table in _batches(piece, columns):
            waiting.append(table)
            held += table.num_rows
            while held >= each:
                whole = pa.concat_tables(waiting)
                yield whole.slice(0, each).combine_chunks()
                waiting, held = [whole.slice(each)], held - each
    if held or not rows:
        yield pa.concat_tables(waiting).combine_chunks()


def block_rows(rows: int, size: int) -> int:
    """Rows of each block but the last, when so many are cut into blocks of about `size`."""
    count = max(round(rows / size), 1)
    return max(-(-rows // count), 1)


def row_in_file(pieces: Sequence[Piece], row: int) -> tuple[str, int]:
    """(path, row from 1 in that file) of a row, from 0, of the pieces together."""
    for piece in pieces:
        if row < piece.rows:
            return piece.path, piece.first + row + 1
        row -= piece.rows
    raise IndexError(row)


def write_piece(uri: str, number: int, tables: Iterable[pa.Table]) -> int:
    """Write part `number` under a directory; it appears whole or not at all, and again over itself. How many rows; a
    part without any is not written, but for the first."""
    filesystem, root = pyarrow.fs.FileSystem.from_uri(uri)
    final, rows = f"{root}/part-{number:05}.parquet", 0
    work = f"{root}/.part-{number:05}"
    writer: pq.ParquetWriter | None = None
    for table in tables:
        if table.num_rows or not number:
            writer = writer or pq.ParquetWriter(work, table.schema, compression="zstd", filesystem=filesystem)
            writer.write_table(table)
            rows += table.num_rows
    if writer is not None:
        writer.close()
        filesystem.move(work, final)
    return rows


def _batches(piece: Piece, columns: Sequence[str]) -> Iterator[pa.Table]:
    filesystem, _ = pyarrow.fs.FileSystem.from_uri(piece.uri)
    file = pq.ParquetFile(filesystem.open_input_file(piece.path), read_dictionary=["topic"])
    known = [name for name in columns if name in file.schema_arrow.names]
    # A task has one core; Arrow would share the others' among its threads.
    for batch in file.iter_batches(BATCH, row_groups=list(piece.groups), columns=known, use_threads=False):
        yield pa.Table.from_batches([batch])
    if not piece.rows:
        yield file.schema_arrow.empty_table().select(known)
