import CountdownConfiguration
import Testing

@Suite struct NestingTests {
  @Test(arguments: ["[", "{", "- ", "? ", "a: [", "{a: "])
  func nestingDeeperThanAnyStackIsRefused(_ opening: String) {
    var configuration = Configuration()
    let yaml = String(repeating: opening, count: 20_000)
    #expect(!configuration.merge(yaml: yaml, file: "f").isEmpty)
  }
}
