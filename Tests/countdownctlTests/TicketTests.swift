import Testing

@testable import countdownctl

/// Source: FIPS 180-4's examples, and RFC 4231.
@Suite struct TicketTests {
  private func hexadecimal(_ bytes: [UInt8]) -> String {
    bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
  }

  @Test("SHA-256 gives the digests of its standard, across the borders of blocks")
  func digests() {
    let known = [
      ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
      ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
      (
        "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
      ),
      (
        String(repeating: "a", count: 1_000_000),
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"
      ),
    ]
    for (text, digest) in known { #expect(hexadecimal(SHA256.digest(Array(text.utf8))) == digest) }
  }

  @Test("HMAC gives the codes of RFC 4231, for short and for long keys")
  func codes() {
    let short = SHA256.hmac(Array("what do ya want for nothing?".utf8), key: Array("Jefe".utf8))
    #expect(
      hexadecimal(short) == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
    let long = SHA256.hmac(
      Array("Test Using Larger Than Block-Size Key - Hash Key First".utf8),
      key: [UInt8](repeating: 0xAA, count: 131))
    #expect(
      hexadecimal(long) == "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54")
  }
}
