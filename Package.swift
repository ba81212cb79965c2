// swift-tools-version: 6.2
import PackageDescription

// Warnings are errors in CI only, so that users can build with a newer compiler.
let settings: [SwiftSetting] =
  Context.environment["CI"] == nil ? [] : [.treatAllWarnings(as: .error)]

/// Functions can return borrowed values. Code that the compiler cannot prove to be memory-safe must
/// be marked `unsafe`.
let strict = settings + [.enableExperimentalFeature("Lifetimes"), .strictMemorySafety()]

extension Target.Dependency {
  /// A product that only the daemon and its tools need.
  static func daemon(_ name: String, _ package: String) -> Self {
    .product(name: name, package: package, condition: .when(traits: ["Daemon"]))
  }

  /// A product that the client needs, too.
  static func client(_ name: String, _ package: String) -> Self {
    .product(name: name, package: package, condition: .when(traits: ["Daemon", "Client"]))
  }
}

let package = Package(
  name: "countdownd",
  products: [
    .library(name: "TimerWheel", targets: ["TimerWheel"]),
    .library(name: "DispatchTimers", targets: ["DispatchTimers"]),
    .library(name: "DispatchTimersTesting", targets: ["DispatchTimersTesting"]),
    .library(name: "CountdownClient", targets: ["CountdownClient"]),
    // One program with two names.
    .executable(name: "countdownd", targets: ["Programs"]),
    .executable(name: "countdownctl", targets: ["Programs"]),
  ],
  // What a user of one library has to fetch: nothing for the timers with `traits: []`, SwiftNIO for
  // the client with `traits: ["Client"]`. Only one trait is enabled at a time: the order of several
  // in the compiler's arguments differs from build to build, and each order recompiles everything.
  traits: [
    .trait(name: "Daemon", description: "The daemon, countdownctl and the client"),
    .trait(name: "Client", description: "The client library alone"),
    .default(enabledTraits: ["Daemon"]),
  ],
  dependencies: [
    .package(url: "https://github.com/apple/swift-collections", from: "1.1.0"),
    .package(url: "https://github.com/apple/swift-nio", from: "2.100.0"),
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
    .package(url: "https://github.com/apple/swift-log", from: "1.10.0"),
    .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift", from: "0.2.0"),
  ],
  targets: [
    // Memory for very many small values. Knows nothing of what they are.
    .systemLibrary(name: "CPrefetch"),
    .target(name: "Memory", dependencies: ["CPrefetch"], swiftSettings: strict),

    // Time.
    .target(name: "TimerWheel", dependencies: ["Memory"], swiftSettings: strict),
    .systemLibrary(name: "CTimerFD"),
    .target(
      name: "DispatchTimers", dependencies: ["CTimerFD", "TimerWheel"], swiftSettings: strict),
    .target(
      name: "DispatchTimersTesting", dependencies: ["DispatchTimers"], swiftSettings: strict),

    // The protocol between the daemon and its clients: RESP, its limits, the version.
    .target(name: "CCommit"),
    .target(name: "Wire", dependencies: ["CCommit"], swiftSettings: strict),

    // The daemon's logic: the engine, a folder for each kind, the commands. No clock, no I/O.
    .target(
      name: "Countdowns",
      dependencies: [
        "Memory", "TimerWheel", "Wire",
        .daemon("DequeModule", "swift-collections"),
        .daemon("HeapModule", "swift-collections"),
        .daemon("Histogram", "hdrhistogram-swift"),
      ],
      swiftSettings: strict),

    // The store.
    .systemLibrary(name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
    .systemLibrary(name: "CLog"),
    .target(
      name: "CountdownStore", dependencies: ["CLog", "CSQLite", "Countdowns", "Wire"],
      swiftSettings: strict),

    // What the process runs on: a loop that waits for descriptors and delays, and its log.
    .systemLibrary(name: "CEpoll"),
    .target(
      name: "Runtime",
      dependencies: [
        "CEpoll", "DispatchTimers",
        .daemon("DequeModule", "swift-collections"),
        .daemon("Logging", "swift-log"),
      ],
      swiftSettings: strict),

    // What speaks to the servers of a fleet.
    .systemLibrary(name: "COpenSSL", providers: [.apt(["libssl-dev"])]),
    .target(
      name: "CountdownFleet",
      dependencies: [
        "COpenSSL", "CountdownStore", "Countdowns", "DispatchTimers", "Runtime", "Wire",
        .daemon("DequeModule", "swift-collections"),
        .daemon("Logging", "swift-log"),
      ],
      swiftSettings: strict),

    // The server and its interfaces to the system.
    .systemLibrary(name: "CMalloc"),
    .target(
      name: "CountdownServer",
      dependencies: [
        "CMalloc", "CountdownFleet", "CountdownStore", "Countdowns", "DispatchTimers", "Runtime",
        "Wire",
        .daemon("DequeModule", "swift-collections"),
        .daemon("Logging", "swift-log"),
      ],
      swiftSettings: strict),
    .systemLibrary(name: "CSystemd", providers: [.apt(["libsystemd-dev"])]),
    .target(
      name: "SystemdSupport",
      dependencies: ["CSystemd", "Wire", .daemon("DequeModule", "swift-collections")],
      swiftSettings: strict),
    .systemLibrary(name: "CYAML", pkgConfig: "yaml-0.1", providers: [.apt(["libyaml-dev"])]),
    .target(
      name: "CountdownConfiguration",
      dependencies: ["CYAML", "CountdownStore", "Countdowns", "Wire"],
      swiftSettings: strict),
    .target(
      name: "countdownd",
      dependencies: [
        "CountdownConfiguration", "CountdownFleet", "CountdownServer", "DispatchTimers", "Runtime",
        "SystemdSupport", "Wire",
        .daemon("ArgumentParser", "swift-argument-parser"),
        .daemon("Logging", "swift-log"),
      ],
      swiftSettings: strict),

    // The clients.
    .target(
      name: "CountdownClient",
      dependencies: [
        "Wire",
        .client("NIOConcurrencyHelpers", "swift-nio"),
        .client("NIOCore", "swift-nio"),
        .client("NIOPosix", "swift-nio"),
      ],
      swiftSettings: strict),
    .target(
      name: "countdownctl",
      dependencies: [
        "CountdownClient", "CountdownConfiguration", "Countdowns", "CountdownStore", "Wire",
        .client("NIOCore", "swift-nio"),
        .client("NIOPosix", "swift-nio"),
        .daemon("Histogram", "hdrhistogram-swift"),
        .daemon("ArgumentParser", "swift-argument-parser"),
      ],
      swiftSettings: strict),

    .executableTarget(
      name: "Programs", dependencies: ["countdownctl", "countdownd"], swiftSettings: strict),

    // Seeded random numbers, for all tests.
    .target(name: "SeededRandom", path: "Tests/SeededRandom", swiftSettings: settings),

    // Compares random histories of the wheel with a naive model: in tests and in `fuzz`.
    .target(
      name: "TimerWheelOracle", dependencies: ["SeededRandom", "TimerWheel"],
      path: "Tests/TimerWheelOracle",
      swiftSettings: settings),

    // Feeds random and damaged input to code that must tolerate it: in tests and in `fuzz`.
    .target(
      name: "Fuzzing",
      dependencies: [
        "Countdowns", "CountdownConfiguration", "CountdownServer", "CountdownStore",
        "SeededRandom", "Wire", "TimerWheelOracle",
      ],
      path: "Tests/Fuzzing", exclude: ["Corpus"], swiftSettings: settings),
    .executableTarget(
      name: "fuzz", dependencies: ["Fuzzing"], path: "Tests/Tools/fuzz", swiftSettings: settings),
    .testTarget(
      name: "FuzzingTests", dependencies: ["CountdownStore", "Countdowns", "Fuzzing"],
      exclude: ["Golden"], swiftSettings: settings),

    // Compares random histories of the engine with naive models: in tests and in `simulate`.
    .target(
      name: "Simulation",
      dependencies: [
        "Countdowns", "SeededRandom", "Wire",
        .daemon("HeapModule", "swift-collections"),
      ],
      path: "Tests/Simulation", swiftSettings: settings),
    .executableTarget(
      name: "simulate", dependencies: ["Simulation"], path: "Tests/Tools/simulate",
      swiftSettings: settings),

    // Drives the client for Swift: the tests of all clients' contract start it.
    .executableTarget(
      name: "contract-driver", dependencies: ["CountdownClient"],
      path: "Tests/Integration/contract/swift", swiftSettings: settings),

    // Measures the store.
    .executableTarget(
      name: "store-bench",
      dependencies: [
        "Countdowns", "CountdownStore",
        .client("NIOCore", "swift-nio"),
        .client("NIOPosix", "swift-nio"),
      ],
      path: "Tests/Tools/store-bench", swiftSettings: settings),

    .testTarget(
      name: "MemoryTests", dependencies: ["Memory", "SeededRandom"], swiftSettings: settings),
    .testTarget(
      name: "TimerWheelTests", dependencies: ["SeededRandom", "TimerWheel", "TimerWheelOracle"],
      swiftSettings: settings),
    .testTarget(
      name: "WireTests", dependencies: ["SeededRandom", "Wire"], swiftSettings: settings),
    .testTarget(
      name: "CountdownClientTests", dependencies: ["CountdownClient"], swiftSettings: settings),
    .testTarget(
      name: "countdownctlTests", dependencies: ["countdownctl", "Wire"],
      swiftSettings: settings),
    .testTarget(
      name: "countdowndTests", dependencies: ["countdownd", "Wire"],
      swiftSettings: settings),
    .testTarget(
      name: "DispatchTimersTests",
      dependencies: ["DispatchTimers", "DispatchTimersTesting", "SeededRandom"],
      swiftSettings: settings),
    .testTarget(
      name: "SystemdSupportTests", dependencies: ["SystemdSupport"], swiftSettings: settings),
    .testTarget(
      name: "CountdownConfigurationTests",
      dependencies: ["CountdownConfiguration", "Wire"],
      swiftSettings: settings),
    .testTarget(
      name: "CountdownsTests",
      dependencies: ["Countdowns", "Memory", "SeededRandom", "Simulation", "Wire"],
      swiftSettings: settings),
    .testTarget(
      name: "CountdownStoreTests", dependencies: ["CountdownStore", "Countdowns"],
      swiftSettings: settings),
    .testTarget(
      name: "CountdownFleetTests",
      dependencies: [
        "CountdownFleet", "Countdowns", "Runtime", "SeededRandom", "Simulation", "Wire",
        .daemon("Logging", "swift-log"),
      ],
      swiftSettings: settings),
    .testTarget(
      name: "CountdownServerTests",
      dependencies: [
        "CountdownServer", "CountdownStore", "Countdowns", "SeededRandom", "Simulation",
      ],
      swiftSettings: settings),
  ],
  swiftLanguageModes: [.v6]
)
