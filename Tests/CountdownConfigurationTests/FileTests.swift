import Foundation
import Testing

@testable import CountdownConfiguration

/// The file and its drop-in directory, on disk.
@Suite struct FileTests {
  /// A directory of its own that goes with the test.
  private final class Directory {
    let path: String

    init() throws {
      path = "/tmp/countdownd-configuration-\(UUID().uuidString)"
      try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    @discardableResult
    func write(_ name: String, _ bytes: some Sequence<UInt8>) throws -> String {
      let file = "\(path)/\(name)"
      try Data(bytes).write(to: URL(fileURLWithPath: file))
      return file
    }

    @discardableResult
    func write(_ name: String, _ text: String) throws -> String { try write(name, text.utf8) }

    func make(_ name: String) throws {
      try FileManager.default.createDirectory(
        atPath: "\(path)/\(name)", withIntermediateDirectories: false)
    }
  }

  @Test func dropInsWinInTheOrderOfTheirNames() throws {
    let directory = try Directory()
    let file = try directory.write("c.yaml", "countdown: {count: 1, every: 2s}\nlog-level: debug")
    try directory.make("c.yaml.d")
    try directory.write("c.yaml.d/20-b.yaml", "countdown: {count: 20}")
    try directory.write("c.yaml.d/10-a.yaml", "countdown: {count: 10}\nslowlog: {length: 10}")
    try directory.write("c.yaml.d/30-c.yaml~", "countdown: {count: 30}")
    try directory.write("c.yaml.d/.40-d.yaml", "countdown: {count: 40}")
    try directory.write("c.yaml.d/50-e.yml", "countdown: {count: 50}")
    try directory.write("c.yaml.d/60-f.YAML", "countdown: {count: 60}")
    try directory.write("c.yaml.d/70-g.md", "notes")
    let configuration = try Configuration.load(path: file)
    #expect(configuration.engine.countdownCount == 20)
    #expect(configuration.engine.countdownEvery == .seconds(2))
    #expect(configuration.dispatcher.slowLogLength == 10)
    #expect(configuration.logLevel == .debug)
    #expect(
      configuration.files.read == [
        file, "\(file).d", "\(file).d/10-a.yaml", "\(file).d/20-b.yaml",
      ])
    #expect(
      configuration.files.warnings
        == ["50-e.yml", "60-f.YAML"].map {
          "\(file).d/\($0) is not read, as its name does not end with .yaml: rename it"
        })
  }

  @Test func limitsOfSeveralFilesAreCheckedTogether() throws {
    let directory = try Directory()
    let file = try directory.write("c.yaml", "countdown: {count: 2147483647, every: 1ms}")
    #expect(try Configuration.load(path: file).engine.countdownCount == 2_147_483_647)
    try directory.make("c.yaml.d")
    try directory.write("c.yaml.d/a.yaml", "countdown: {every: 1s}")
    let error = #expect(throws: ConfigurationError.self) { try Configuration.load(path: file) }
    let problem =
      ": countdown.count: 2147483647 steps of countdown.every are longer than 3650d together; "
      + "allowed: at most that"
    #expect(error?.description == file + problem)
    #expect(throws: ConfigurationError.self) {
      try Configuration(yaml: "countdown: {every: 3650d}", file: "f")
    }
    #expect(throws: Never.self) {
      try Configuration(yaml: "countdown: {every: 3650d, count: 1}", file: "f")
    }
  }

  @Test func problemsOfAllFilesAreReportedTogether() throws {
    let directory = try Directory()
    let file = try directory.write("c.yaml", "log-level: loud")
    try directory.make("c.yaml.d")
    try directory.write("c.yaml.d/a.yaml", "\nhud: {mim: 5s}")
    try directory.write("c.yaml.d/b.yaml", Array("# é\n# 你".utf8) + [0xff])
    try directory.make("c.yaml.d/c.yaml")
    let error = #expect(throws: ConfigurationError.self) { try Configuration.load(path: file) }
    let lines = error?.description.split(separator: "\n").map(String.init) ?? []
    #expect(lines.count == 4)
    #expect(lines[0].hasPrefix("\(file):1: log-level: \"loud\" is not allowed; allowed: one of "))
    #expect(lines[1] == "\(file).d/a.yaml:2: hud.mim: unknown setting; did you mean min?")
    #expect(lines[2] == "\(file).d/b.yaml:2: not UTF-8")
    #expect(lines[3] == "\(file).d/c.yaml: cannot be read: Is a directory")
  }

  @Test func aChosenFileMustExist() throws {
    let directory = try Directory()
    let path = directory.path + "/none.yaml"
    let error = #expect(throws: ConfigurationError.self) { try Configuration.load(path: path) }
    #expect(error?.description == "\(path): cannot be read: No such file or directory")
  }

  @Test func aHugeFileIsRefusedUnread() throws {
    let directory = try Directory()
    let length = Configuration.fileLimitBytes
    let fits = try directory.write("a.yaml", String(repeating: "#", count: length))
    let tooLong = try directory.write("b.yaml", String(repeating: "#", count: length + 1))
    #expect(throws: Never.self) { try Configuration.load(path: fits) }
    let error = #expect(throws: ConfigurationError.self) { try Configuration.load(path: tooLong) }
    #expect(error?.description == "\(tooLong): longer than 1048576 bytes")
  }

  /// The example is the operator's reference, so it must say what is true.
  @Test func theExampleIsTheDefaultsAndNamesEverySetting() throws {
    var example = try Configuration.load(path: examplePath)
    example.files = Configuration.Files()
    #expect(example == Configuration())

    // A name that is spelt so, at the depth where it belongs, below the sections it is in.
    let text = try String(contentsOfFile: examplePath, encoding: .utf8)
    var section: [String] = []
    var named: Set<String> = []
    for line in text.split(separator: "\n") {
      let depth = line.prefix { $0 == " " }.count / 2
      let key = line.drop { $0 == " " }.prefix { $0 != ":" }
      guard !key.hasPrefix("#"), !key.hasPrefix("-") else { continue }
      section = section.prefix(depth) + [String(key)]
      named.insert(section.joined(separator: "."))
    }
    for setting in Setting.all {
      #expect(named.contains(setting.name), "the example does not show \(setting.name)")
    }
  }
}

/// `config/countdownd.yaml`.
let examplePath = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
  .deletingLastPathComponent().deletingLastPathComponent()
  .appendingPathComponent("config/countdownd.yaml").path
