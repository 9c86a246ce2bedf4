//! NumPy's npz: a zip archive (PKWARE's APPNOTE) of npy arrays (NumPy's format versions 1 to 3). Arrays are
//! to be stored, as `numpy.savez` does, and of floats.

use super::bytes::{CRC32, Reader, claim, crc, floats};
use crate::file::{Tensor, Tensors};

/// The arrays of an archive, by name.
pub fn read(bytes: &[u8]) -> Result<Tensors, String> {
    let entries = entries(bytes).ok_or("no whole npz archive: its directory cannot be read")?;
    let mut tensors = Tensors::new();
    let mut left = bytes.len();
    for Entry { name, method, checksum, size, offset } in entries {
        let name = name.strip_suffix(".npy").unwrap_or(&name);
        if method != 0 {
            return Err(format!("array {name} is compressed: save it with numpy.savez"));
        }
        let data = content(bytes, offset, size).ok_or_else(|| format!("array {name} is truncated"))?;
        claim(&mut left, size).map_err(|error| format!("array {name}: {error}"))?;
        if crc(CRC32, data) != checksum {
            return Err(format!("array {name} is damaged: its checksum differs"));
        }
        let tensor = array(data).map_err(|error| format!("array {name}: {error}"))?;
        tensors.insert(name.to_string(), tensor);
    }
    Ok(tensors)
}

struct Entry {
    name: String,
    method: usize,
    checksum: u32,
    size: usize,
    offset: usize,
}

/// The archive's directory, found from its end.
fn entries(bytes: &[u8]) -> Option<Vec<Entry>> {
    let end = bytes.windows(4).rposition(|window| window == b"PK\x05\x06")?;
    let mut reader = Reader(&bytes[end..]);
    reader.take(10)?;
    let count = reader.u16()?;
    reader.take(4)?;
    let start = reader.u32()? as usize;
    let mut reader = Reader(bytes.get(start..end)?);
    let mut entries = Vec::new();
    for _ in 0..count {
        if reader.take(4)? != b"PK\x01\x02" {
            return None;
        }
        reader.take(6)?;
        let method = reader.u16()?;
        reader.take(4)?;
        let checksum = reader.u32()?;
        let size = reader.u32()? as usize;
        reader.take(4)?;
        let (name, extra, comment) = (reader.u16()?, reader.u16()?, reader.u16()?);
        reader.take(8)?;
        let offset = reader.u32()? as usize;
        let name = String::from_utf8_lossy(reader.take(name)?).into_owned();
        reader.take(extra + comment)?;
        entries.push(Entry { name, method, checksum, size, offset });
    }
    Some(entries)
}

/// The bytes of an entry, behind its own header.
fn content(bytes: &[u8], offset: usize, size: usize) -> Option<&[u8]> {
    let mut reader = Reader(bytes.get(offset..)?);
    if reader.take(4)? != b"PK\x03\x04" {
        return None;
    }
    reader.take(22)?;
    let (name, extra) = (reader.u16()?, reader.u16()?);
    reader.take(name + extra)?;
    reader.take(size)
}

/// An npy array.
fn array(bytes: &[u8]) -> Result<Tensor, String> {
    let (header, data) = header(bytes).ok_or("no npy array")?;
    let value = |key: &str| {
        let rest = header.split(&format!("'{key}':")).nth(1);
        rest.map(str::trim_start).ok_or_else(|| format!("its header has no {key}"))
    };
    let width = match value("descr")?.split('\'').nth(1) {
        Some("<f4") => 4,
        Some("<f8") => 8,
        other => return Err(format!("type {}; only <f4 and <f8 are read", other.unwrap_or("?"))),
    };
    let shape = value("shape")?.strip_prefix('(').and_then(|rest| rest.split(')').next());
    let axes = shape.unwrap_or_default().split(',').map(str::trim).filter(|axis| !axis.is_empty());
    let shape: Option<Vec<usize>> = axes.map(|axis| axis.parse().ok()).collect();
    let shape = shape.ok_or("its shape is no list of numbers")?;
    let size = shape.iter().try_fold(width, |size: usize, &axis| size.checked_mul(axis));
    if size != Some(data.len()) {
        return Err(format!("{} bytes for shape {shape:?}", data.len()));
    }
    let values = match width {
        4 => floats(data),
        _ => data.as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b) as f32).collect(),
    };
    let fortran = value("fortran_order")?.starts_with("True");
    match shape[..] {
        [rows, columns] if fortran => Ok(Tensor { shape, values: transposed(&values, columns, rows) }),
        _ if fortran && shape.len() > 1 => Err("more than two axes in Fortran's order".to_string()),
        _ => Ok(Tensor { shape, values }),
    }
}

/// Header text and data of an npy array.
fn header(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let mut reader = Reader(bytes);
    if reader.take(6)? != b"\x93NUMPY" {
        return None;
    }
    let version = reader.take(2)?[0];
    let length = if version == 1 { reader.u16()? } else { reader.u32()? as usize };
    Some((std::str::from_utf8(reader.take(length)?).ok()?, reader.0))
}

/// rows × columns becomes columns × rows.
pub fn transposed(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    (0..columns).flat_map(|column| (0..rows).map(move |row| values[row * columns + column])).collect()
}
