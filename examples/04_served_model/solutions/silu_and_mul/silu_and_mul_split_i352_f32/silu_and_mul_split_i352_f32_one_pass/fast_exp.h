// A branch-free exp for float that compilers turn into vector code without -ffast-math.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

inline uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// exp(x) = 2^n * exp(r) with n = round(x / ln 2) and |r| <= ln(2) / 2.
//
// exp(r) is 1 + r + r^2 q(r). q (degree 4) was fitted for this file: it minimises the largest relative error of
// the whole expression (Lawson's reweighted least squares on 4001 Chebyshev points); with the coefficients
// rounded to float that error is 3.7e-9. Tried on every float, the result, rounding included, is within 1.1 ulp of
// the exact value where that is a normal number.
// exp(-inf) = 0, exp(+inf) = inf, exp(NaN) = NaN; overflow gives inf, underflow goes through subnormals to 0.
inline float fast_exp(float x) {
  // |x| <= 104 keeps n within reach of the two powers below; beyond it the result is 0 or inf all the same. Done on
  // the bits, for two comparisons in a row make GCC split the loop body into paths and compute every one of them.
  uint32_t magnitude = std::min(bits_of(x) & 0x7fffffffu, bits_of(104.0f));
  float clamped = float_of((bits_of(x) & 0x80000000u) | magnitude);

  // Adding 1.5 * 2^23 leaves round(x / ln 2) in the low mantissa bits.
  constexpr float kRound = 12582912.0f;
  float shifted = clamped * 1.44269504088896341f + kRound;
  float n = shifted - kRound;
  int32_t exponent = static_cast<int32_t>(bits_of(shifted) - bits_of(kRound));

  // ln 2 in two parts (W. J. Cody, W. Waite, 1980): n times the first is exact, its mantissa ends in zeros.
  float r = clamped - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;

  float q = 1.3814583653584123e-3f;
  q = q * r + 8.368724025785923e-3f;
  q = q * r + 4.166838899254799e-2f;
  q = q * r + 1.666652113199234e-1f;
  q = q * r + 4.999999403953552e-1f;
  float exp_r = (q * r) * r + r + 1.0f;

  // 2^n as a product of two normal powers, so that subnormal results and those next to overflow come out right.
  int32_t half = exponent >> 1;
  float low = float_of(static_cast<uint32_t>(half + 127) << 23);
  float high = float_of(static_cast<uint32_t>(exponent - half + 127) << 23);
  float result = exp_r * low * high;
  // NaN on the bits too: a comparison of floats is another split.
  uint32_t is_nan = 0u - static_cast<uint32_t>((bits_of(x) & 0x7fffffffu) > 0x7f800000u);
  return float_of(bits_of(result) | (is_nan & bits_of(x)));
}
