//! Little-endian numbers and checksums, from bytes that may be anything.

/// Reads from the front.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Option<usize> {
        Some(usize::from(u16::from_le_bytes(self.take(2)?.try_into().ok()?)))
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    /// Seven bits per byte, the lowest first; the last byte has no high bit.
    pub fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// A varint that counts bytes.
    pub fn length(&mut self) -> Option<usize> {
        usize::try_from(self.varint()?).ok()
    }
}

/// Takes `size` bytes of the `left` ones of a file. Tensors do not overlap: a header that says so would make us copy the
/// data many times.
pub fn claim(left: &mut usize, size: usize) -> Result<(), String> {
    *left = left.checked_sub(size).ok_or("the data is truncated, or belongs to others as well")?;
    Ok(())
}

/// Polynomial of zip's CRC-32, lowest bit first.
pub const CRC32: u32 = 0xedb8_8320;
/// Polynomial of CRC-32C (RFC 3720), lowest bit first.
pub const CRC32C: u32 = 0x82f6_3b78;

/// The checksum of `bytes`.
pub fn crc(polynomial: u32, bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ polynomial } else { crc >> 1 };
    let table: [u32; 256] = std::array::from_fn(|byte| (0..8).fold(byte as u32, |crc, _| step(crc)));
    !bytes.iter().fold(!0, |crc, byte| (crc >> 8) ^ table[(crc as u8 ^ byte) as usize])
}

/// Float32 values from their bytes.
pub fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}
