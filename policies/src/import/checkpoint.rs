//! TensorFlow's checkpoint of one shard ("bundle", V2): an index and the tensors' bytes.
//!
//! The index is a table in LevelDB's format (its doc/table_format.md): blocks of entries whose keys share
//! prefixes, an index block of the blocks' places, and a footer of 48 bytes with the index block's place.
//! A key is a variable's name, its value a protocol buffer (BundleEntryProto) with type, shape and place in
//! the data. Blocks and tensors carry a masked CRC-32C.

use super::bytes::{CRC32C, Reader, claim, crc, floats};
use crate::file::{Tensor, Tensors};

const FOOTER: usize = 48;
const MAGIC: [u8; 8] = 0xdb47_7524_8b80_fb57_u64.to_le_bytes();
/// TensorFlow's number for float32.
const FLOAT: u64 = 1;
/// All keys together are at most this many times as long as the index: they share what they can, but each has a value.
const MAX_SHARED: usize = 16;

/// The float32 variables of a checkpoint, by name.
pub fn read(index: &[u8], data: &[u8]) -> Result<Tensors, String> {
    let footer = index.len().checked_sub(FOOTER).and_then(|at| index.get(at..));
    let footer = footer.filter(|footer| footer.ends_with(&MAGIC));
    let mut footer = Reader(footer.ok_or("no index of a TensorFlow checkpoint: its last bytes differ")?);
    let damaged = || "the checkpoint's index is damaged".to_string();
    place(&mut footer).ok_or_else(damaged)?;
    let (mut unread, mut keys) = (index.len(), index.len().saturating_mul(MAX_SHARED));
    let mut read = |at: Option<Place>| {
        let content = block(index, at.ok_or_else(damaged)?, &mut unread)?;
        entries(content, &mut keys).ok_or_else(damaged)
    };
    let blocks = read(place(&mut footer))?;
    let mut tensors = Tensors::new();
    let mut left = data.len();
    for (_, handle) in blocks {
        for (key, value) in read(place(&mut Reader(handle)))? {
            let name = String::from_utf8_lossy(&key).into_owned();
            // The empty key holds the checkpoint's header.
            let entry = Entry::read(value).ok_or_else(damaged)?;
            if name.is_empty() || entry.kind != FLOAT {
                continue;
            }
            let tensor = claim(&mut left, entry.size).and_then(|()| entry.tensor(data));
            tensors.insert(name.clone(), tensor.map_err(|e| format!("variable {name}: {e}"))?);
        }
    }
    Ok(tensors)
}

/// Offset and length in a file.
type Place = (usize, usize);

fn place(reader: &mut Reader) -> Option<Place> {
    Some((reader.length()?, reader.length()?))
}

/// Checksums that are stored beside what they cover are rotated and shifted.
fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The content of a block, one of the index's `left` bytes that belong to no other; behind it come one byte of compression
/// and the checksum of both.
fn block<'a>(index: &'a [u8], (offset, length): Place, left: &mut usize) -> Result<&'a [u8], String> {
    let mut reader = Reader(index.get(offset..).unwrap_or_default());
    let whole = length.checked_add(1).and_then(|length| Some((reader.take(length)?, reader.u32()?)));
    let (content, checksum) = whole.ok_or("the checkpoint's index is truncated")?;
    claim(left, content.len()).map_err(|_| "the checkpoint's index is damaged: its blocks overlap")?;
    if masked(crc(CRC32C, content)) != checksum {
        return Err("the checkpoint's index is damaged: a checksum differs".to_string());
    }
    match content {
        [content @ .., 0] => Ok(content),
        _ => Err("the checkpoint's index is compressed, which TensorFlow never does by itself".to_string()),
    }
}

/// A key and its value.
type Row<'a> = (Vec<u8>, &'a [u8]);

/// Keys and values of a block, with `left` bytes for keys. Its end holds places to start reading from, and their number.
fn entries<'a>(block: &'a [u8], left: &mut usize) -> Option<Vec<Row<'a>>> {
    let (rest, count) = block.split_last_chunk::<4>()?;
    let restarts = (u32::from_le_bytes(*count) as usize).checked_mul(4)?;
    let mut reader = Reader(rest.get(..rest.len().checked_sub(restarts)?)?);
    let mut entries: Vec<Row> = Vec::new();
    while !reader.0.is_empty() {
        let (shared, own, length) = (reader.length()?, reader.length()?, reader.length()?);
        let before = entries.last().map_or(&[][..], |(key, _)| key);
        let (shared, own) = (before.get(..shared)?, reader.take(own)?);
        claim(left, shared.len() + own.len()).ok()?;
        entries.push(([shared, own].concat(), reader.take(length)?));
    }
    Some(entries)
}

/// What the index says about a variable.
#[derive(Default)]
struct Entry {
    kind: u64,
    shape: Vec<usize>,
    shard: u64,
    offset: usize,
    size: usize,
    checksum: u32,
}

/// One field of a protocol buffer.
enum Field<'a> {
    Number(u64),
    Fixed(u32),
    Bytes(&'a [u8]),
}

/// The next field with its number.
fn field<'a>(reader: &mut Reader<'a>) -> Option<(u64, Field<'a>)> {
    let tag = reader.varint()?;
    let value = match tag & 7 {
        0 => Field::Number(reader.varint()?),
        2 => {
            let length = reader.length()?;
            Field::Bytes(reader.take(length)?)
        }
        5 => Field::Fixed(reader.u32()?),
        _ => return None,
    };
    Some((tag >> 3, value))
}

impl Entry {
    fn read(bytes: &[u8]) -> Option<Entry> {
        let mut entry = Entry::default();
        let mut reader = Reader(bytes);
        while !reader.0.is_empty() {
            match field(&mut reader)? {
                (1, Field::Number(kind)) => entry.kind = kind,
                (2, Field::Bytes(shape)) => entry.shape = self::shape(shape)?,
                (3, Field::Number(shard)) => entry.shard = shard,
                (4, Field::Number(offset)) => entry.offset = usize::try_from(offset).ok()?,
                (5, Field::Number(size)) => entry.size = usize::try_from(size).ok()?,
                (6, Field::Fixed(checksum)) => entry.checksum = checksum,
                _ => {}
            }
        }
        Some(entry)
    }

    fn tensor(self, data: &[u8]) -> Result<Tensor, String> {
        if self.shard != 0 {
            return Err("lies in another shard; only checkpoints of one are read".to_string());
        }
        let mut reader = Reader(data.get(self.offset..).unwrap_or_default());
        let bytes = reader.take(self.size).ok_or("the data is truncated")?;
        let length = self.shape.iter().try_fold(4_usize, |length, &axis| length.checked_mul(axis));
        if length != Some(bytes.len()) {
            return Err(format!("{} bytes for shape {:?}", bytes.len(), self.shape));
        }
        if masked(crc(CRC32C, bytes)) != self.checksum {
            return Err("the data is damaged: its checksum differs".to_string());
        }
        Ok(Tensor { values: floats(bytes), shape: self.shape })
    }
}

/// The lengths of the axes (TensorShapeProto: field 2 of each axis is its size).
fn shape(bytes: &[u8]) -> Option<Vec<usize>> {
    let mut reader = Reader(bytes);
    let mut shape = Vec::new();
    while !reader.0.is_empty() {
        if let (2, Field::Bytes(axis)) = field(&mut reader)? {
            let mut reader = Reader(axis);
            let mut length = 0;
            while !reader.0.is_empty() {
                if let (1, Field::Number(size)) = field(&mut reader)? {
                    length = usize::try_from(size).ok()?;
                }
            }
            shape.push(length);
        }
    }
    Some(shape)
}
