//! A coding compiled for several generations of the CPU: the one at hand is asked which it is.
//!
//! Each call is a type of its own, because a closure's body would not be inlined where the better instructions are.

use pulp::{Arch, NullaryFnOnce};

use super::Coding;

pub(super) struct Fast<C>(pub(super) C);

struct Encode<'a, C>(&'a C, &'a [f32], &'a mut Vec<u8>);
struct Largest<'a, C>(&'a C, &'a [u8]);
struct AddScaled<'a, C>(&'a C, &'a [u8], &'a mut [f32], f32);
struct Decode<'a, C>(&'a C, &'a [u8], &'a mut [f32]);

impl<C: Coding> Coding for Fast<C> {
    fn encode(&self, values: &[f32], out: &mut Vec<u8>) {
        Arch::new().dispatch(Encode(&self.0, values, out));
    }

    fn largest(&self, payload: &[u8]) -> f32 {
        Arch::new().dispatch(Largest(&self.0, payload))
    }

    fn add_scaled(&self, payload: &[u8], target: &mut [f32], scale: f32) {
        Arch::new().dispatch(AddScaled(&self.0, payload, target, scale));
    }

    fn decode(&self, payload: &[u8], target: &mut [f32]) {
        Arch::new().dispatch(Decode(&self.0, payload, target));
    }
}

impl<C: Coding> NullaryFnOnce for Encode<'_, C> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.0.encode(self.1, self.2);
    }
}

impl<C: Coding> NullaryFnOnce for Largest<'_, C> {
    type Output = f32;

    #[inline(always)]
    fn call(self) -> f32 {
        self.0.largest(self.1)
    }
}

impl<C: Coding> NullaryFnOnce for AddScaled<'_, C> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.0.add_scaled(self.1, self.2, self.3);
    }
}

impl<C: Coding> NullaryFnOnce for Decode<'_, C> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.0.decode(self.1, self.2);
    }
}
