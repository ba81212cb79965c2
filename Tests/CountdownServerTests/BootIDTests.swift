import CountdownStore
import Testing

@testable import CountdownServer

@Suite struct BootIDTests {
  @Test func aBootIDIsTheSameWithAndWithoutDashes() {
    let digits = "11b1c9c07aa54f2c8a4e2f5e8a9b0c1d"
    #expect(BootID.digits("11b1c9c0-7aa5-4f2c-8a4e-2f5e8a9b0c1d") == digits)
    #expect(BootID.digits(digits) == digits)
    #expect(BootID.digits("11B1C9C07AA54F2C8A4E2F5E8A9B0C1D") == digits)
  }

  /// It would be the same in each boot.
  @Test(arguments: [
    "", "%b", "unknown", "11b1c9c07aa54f2c8a4e2f5e8a9b0c1", "the boot of the machine, 32 long",
  ])
  func invalidTextIsNoBootID(text: String) { #expect(BootID.digits(text) == nil) }

  @Test func thisMachineHasABootID() { #expect(BootID.digits(BootID.current) == BootID.current) }
}
