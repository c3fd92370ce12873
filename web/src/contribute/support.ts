/** What this browser can do, found out without fetching or computing anything. */

/** A module whose only function returns a 128-bit vector. */
const SIMD = new Uint8Array([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11,
]);

export interface Support {
  simd: boolean;
  webgpu: boolean;
  secure: boolean;
}

export function support(): Support {
  return {
    simd: typeof WebAssembly === "object" && WebAssembly.validate(SIMD),
    webgpu: "gpu" in navigator,
    secure: isSecureContext,
  };
}
