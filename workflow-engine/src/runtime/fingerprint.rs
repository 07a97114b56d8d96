//! Tells whether two values of one type differ where the type lacks `PartialEq`.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::ser::{self, Serialize};

/// Returns a number that is equal for equal values of a type. It follows what a value tells serde,
/// and so sees what JSON text drops: `Some(())` is not `None`. The order of sequences and maps does
/// not count, because a hash map has another order after it was decoded. `None` if the value cannot
/// be serialized.
pub fn fingerprint<T: Serialize + ?Sized>(value: &T) -> Option<u64> {
    catch_unwind(AssertUnwindSafe(|| value.serialize(Fingerprint))).ok()?.ok()
}

/// Mixes two numbers, not symmetrically.
fn mix(one: u64, other: u64) -> u64 {
    (one.rotate_left(5) ^ other).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
}

fn hash(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The kinds of values that differ although their contents may be equal.
mod kind {
    pub(super) const NONE: u64 = 1;
    pub(super) const SOME: u64 = 2;
    pub(super) const UNIT: u64 = 3;
    pub(super) const NUMBER: u64 = 4;
    pub(super) const TEXT: u64 = 5;
    pub(super) const VARIANT: u64 = 6;
    pub(super) const SEQUENCE: u64 = 7;
    pub(super) const FIELDS: u64 = 8;
}

/// Serializes a value into its fingerprint.
struct Fingerprint;

/// A value with parts. The parts are added up, so that their order does not count.
struct Parts {
    kind: u64,
    sum: u64,
    /// The number of parts, or the key of the next one.
    next: u64,
}

impl Parts {
    fn of(kind: u64) -> Self {
        Self { kind, sum: 0, next: 0 }
    }

    fn add<T: Serialize + ?Sized>(&mut self, key: u64, value: &T) -> Result<(), serde_json::Error> {
        self.sum = self.sum.wrapping_add(mix(mix(self.kind, key), value.serialize(Fingerprint)?));
        Ok(())
    }

    fn add_next<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), serde_json::Error> {
        self.next += 1;
        self.add(self.next, value)
    }

    fn total(&self) -> Result<u64, serde_json::Error> {
        Ok(mix(self.kind, self.sum))
    }
}

/// Serializes numbers of these types. Each type has a number of its own, because the variants of an
/// untagged enum may differ by nothing else.
macro_rules! numbers {
    ($($method:ident: $type:ty => $own:literal),* $(,)?) => {
        $(fn $method(self, value: $type) -> Result<u64, serde_json::Error> {
            Ok(mix(mix(kind::NUMBER, $own), hash(&value)))
        })*
    };
}

impl ser::Serializer for Fingerprint {
    type Ok = u64;
    type Error = serde_json::Error;
    type SerializeSeq = Parts;
    type SerializeTuple = Parts;
    type SerializeTupleStruct = Parts;
    type SerializeTupleVariant = Parts;
    type SerializeMap = Parts;
    type SerializeStruct = Parts;
    type SerializeStructVariant = Parts;

    numbers! {
        serialize_bool: bool => 1, serialize_char: char => 2,
        serialize_i8: i8 => 3, serialize_i16: i16 => 4, serialize_i32: i32 => 5, serialize_i64: i64 => 6,
        serialize_i128: i128 => 7,
        serialize_u8: u8 => 8, serialize_u16: u16 => 9, serialize_u32: u32 => 10, serialize_u64: u64 => 11,
        serialize_u128: u128 => 12,
    }

    fn serialize_f32(self, value: f32) -> Result<u64, Self::Error> {
        Ok(mix(mix(kind::NUMBER, 13), value.to_bits().into()))
    }

    fn serialize_f64(self, value: f64) -> Result<u64, Self::Error> {
        Ok(mix(mix(kind::NUMBER, 14), value.to_bits()))
    }

    fn serialize_str(self, value: &str) -> Result<u64, Self::Error> {
        Ok(mix(kind::TEXT, hash(value)))
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<u64, Self::Error> {
        Ok(mix(kind::TEXT, hash(value)))
    }

    fn serialize_none(self) -> Result<u64, Self::Error> {
        Ok(kind::NONE)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<u64, Self::Error> {
        Ok(mix(kind::SOME, value.serialize(self)?))
    }

    fn serialize_unit(self) -> Result<u64, Self::Error> {
        Ok(kind::UNIT)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<u64, Self::Error> {
        Ok(kind::UNIT)
    }

    fn serialize_unit_variant(self, _: &'static str, index: u32, _: &'static str) -> Result<u64, Self::Error> {
        Ok(mix(kind::VARIANT, index.into()))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<u64, Self::Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        index: u32,
        _: &'static str,
        value: &T,
    ) -> Result<u64, Self::Error> {
        Ok(mix(mix(kind::VARIANT, index.into()), value.serialize(self)?))
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Parts, Self::Error> {
        Ok(Parts::of(kind::SEQUENCE))
    }

    fn serialize_tuple(self, _: usize) -> Result<Parts, Self::Error> {
        Ok(Parts::of(kind::SEQUENCE))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Parts, Self::Error> {
        Ok(Parts::of(kind::SEQUENCE))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        index: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Parts, Self::Error> {
        Ok(Parts::of(mix(kind::VARIANT, index.into())))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Parts, Self::Error> {
        Ok(Parts::of(kind::FIELDS))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Parts, Self::Error> {
        Ok(Parts::of(kind::FIELDS))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        index: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Parts, Self::Error> {
        Ok(Parts::of(mix(kind::VARIANT, index.into())))
    }
}

impl ser::SerializeSeq for Parts {
    type Ok = u64;
    type Error = serde_json::Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Self::Error> {
        self.add(0, value)
    }

    fn end(self) -> Result<u64, Self::Error> {
        self.total()
    }
}

impl ser::SerializeMap for Parts {
    type Ok = u64;
    type Error = serde_json::Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Self::Error> {
        self.next = key.serialize(Fingerprint)?;
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Self::Error> {
        self.add(self.next, value)
    }

    fn end(self) -> Result<u64, Self::Error> {
        self.total()
    }
}

/// Implements the traits of values whose parts have places.
macro_rules! by_place {
    ($($trait:ident::$method:ident),*) => {
        $(impl ser::$trait for Parts {
            type Ok = u64;
            type Error = serde_json::Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Self::Error> {
                self.add_next(value)
            }

            fn end(self) -> Result<u64, Self::Error> {
                self.total()
            }
        })*
    };
}

by_place!(SerializeTuple::serialize_element, SerializeTupleStruct::serialize_field);
by_place!(SerializeTupleVariant::serialize_field);

/// Implements the traits of values whose parts have names.
macro_rules! by_name {
    ($($trait:ident),*) => {
        $(impl ser::$trait for Parts {
            type Ok = u64;
            type Error = serde_json::Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), Self::Error> {
                self.add(hash(name), value)
            }

            fn end(self) -> Result<u64, Self::Error> {
                self.total()
            }
        })*
    };
}

by_name!(SerializeStruct, SerializeStructVariant);
