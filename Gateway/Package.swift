// swift-tools-version: 6.2
import PackageDescription

// CI treats warnings as errors; a stranger with a newer compiler should still be able to build.
let settings: [SwiftSetting] =
  Context.environment["CI"] == nil ? [] : [.treatAllWarnings(as: .error)]

// A package of its own, so that building and testing the daemon builds no HTTP server.
let package = Package(
  name: "countdown-gateway",
  products: [
    .executable(name: "countdown-gateway", targets: ["countdown-gateway"]),
    .executable(name: "showcase", targets: ["showcase"]),
  ],
  dependencies: [
    .package(name: "countdownd", path: ".."),
    .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.0", traits: []),
    .package(url: "https://github.com/apple/swift-crypto", "3.12.0"..<"5.0.0"),
    .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    .package(url: "https://github.com/apple/swift-nio", from: "2.100.0"),
    .package(url: "https://github.com/apple/swift-nio-extras", from: "1.20.0"),
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
    .package(url: "https://github.com/apple/swift-log", from: "1.10.0"),
  ],
  targets: [
    .systemLibrary(name: "CZlib", providers: [.apt(["zlib1g-dev"])]),
    .target(
      name: "Gateway",
      dependencies: [
        .product(name: "CountdownClient", package: "countdownd"),
        .product(name: "Hummingbird", package: "hummingbird"),
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOPosix", package: "swift-nio"),
        .product(name: "NIOHTTP1", package: "swift-nio"),
        .product(name: "NIOHTTPTypesHTTP1", package: "swift-nio-extras"),
        "CZlib",
        .product(name: "Logging", package: "swift-log"),
      ],
      // Self-hosters and the package for npm have these; `make components` makes Served from them.
      exclude: ["Components"],
      resources: [
        .embedInCode("Pages"), .embedInCode("Served/countdown-button.js"),
        .embedInCode("Served/countdown-hud.js"), .embedInCode("Served/countdown-languages.js"),
        .embedInCode("Served/countdown-stream.js"),
      ],
      swiftSettings: settings),
    .executableTarget(
      name: "countdown-gateway",
      dependencies: [
        "Gateway",
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
      ],
      swiftSettings: settings),
    .executableTarget(
      name: "showcase",
      dependencies: [
        "Gateway",
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
      ],
      exclude: ["Pages"],
      swiftSettings: settings),
    .testTarget(
      name: "GatewayTests", dependencies: ["Gateway"], swiftSettings: settings),
  ],
  swiftLanguageModes: [.v6]
)
