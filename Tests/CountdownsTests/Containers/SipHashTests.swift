import Testing

@testable import Countdowns

@Suite struct SipHashTests {
  /// SipHash with the paper's key. The key and the texts are bytes that count up from 0.
  private static let reference = SipHash(key: (0x0706_0504_0302_0100, 0x0F0E_0D0C_0B0A_0908))

  @Test(
    arguments: [
      (0, 0x726F_DB47_DD0E_0E31), (1, 0x74F8_39C5_93DC_67FD), (7, 0xAB02_00F5_8B01_D137),
      (8, 0x93F5_F579_9A93_2462), (15, 0xA129_CA61_49BE_45E5), (16, 0x3F2A_CC7F_57C2_9BDB),
    ] as [(UInt8, UInt64)])
  func sipHash24HasTheHashesThatItsAuthorsPublish(length: UInt8, hash: UInt64) {
    let text = Array(0..<length)
    #expect(Self.reference(text.span, compression: 2, finalization: 4) == hash)
  }

  @Test func anotherKeyGivesAnotherHashAndOneChangedBitChangesAboutHalfOfTheHash() {
    let text = Array("login:13800138000".utf8)
    let hash = Self.reference(text.span)
    #expect(SipHash(key: (1, 2))(text.span) != hash)
    for index in text.indices {
      for bit in 0..<8 as Range<UInt8> {
        var other = text
        other[index] ^= 1 << bit
        let changed = (Self.reference(other.span) ^ hash).nonzeroBitCount
        #expect((10...54).contains(changed))
      }
    }
  }
}
