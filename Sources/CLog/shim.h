// Functions that the change log needs and Swift does not have.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

// A GNU extension, which Swift's module of the C library leaves out.
extern int fallocate(int descriptor, int mode, off_t offset, off_t length);

// CRC32C (Castagnoli, RFC 3720 appendix B.4), with the processor's instruction if it has one.

// Whether `countdownd_crc32c_fast` may be called. Ask once: this takes microseconds in a VM.
static inline int countdownd_has_crc32c(void) {
#if defined(__x86_64__)
  unsigned a, b, c = 0, d;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_2);
#elif defined(__aarch64__)
  return (getauxval(AT_HWCAP) & (1 << 7)) != 0;
#else
  return 0;
#endif
}

static inline uint32_t countdownd_crc32c_fast(uint32_t crc, const unsigned char *bytes, size_t count) {
#if defined(__x86_64__)
  uint64_t sum = (uint32_t)~crc;
  for (; count >= 8; bytes += 8, count -= 8) {
    uint64_t word;
    memcpy(&word, bytes, 8);
    __asm__("crc32q %1, %0" : "+r"(sum) : "r"(word));
  }
  for (; count; bytes++, count--) __asm__("crc32b %1, %k0" : "+r"(sum) : "r"(*bytes));
  return ~(uint32_t)sum;
#elif defined(__aarch64__)
  uint32_t sum = ~crc;
  for (; count >= 8; bytes += 8, count -= 8) {
    uint64_t word;
    memcpy(&word, bytes, 8);
    __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(sum) : "r"(word));
  }
  for (; count; bytes++, count--)
    __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(sum) : "r"((uint32_t)*bytes));
  return ~sum;
#else
  (void)bytes, (void)count;
  return crc;
#endif
}

static inline uint32_t countdownd_crc32c_slow(uint32_t crc, const unsigned char *bytes, size_t count) {
  crc = ~crc;
  for (; count; bytes++, count--) {
    crc ^= *bytes;
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
  }
  return ~crc;
}
