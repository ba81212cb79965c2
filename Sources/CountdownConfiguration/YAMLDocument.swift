import CYAML

/// A YAML document as libyaml composes it, copied out of its memory.
struct YAMLDocument {
  /// A value. Other values refer to it by index; with aliases, a value may even contain itself.
  struct Node {
    enum Content {
      /// `isPlain`: without quotes, so it may mean null.
      case scalar(String, isPlain: Bool)
      case sequence([Int])
      case mapping([(key: Int, value: Int)])
    }

    let content: Content
    /// The line on which the value begins, counted from 1.
    let line: Int
  }

  /// Why a text is not one YAML document, and on which line.
  struct Malformed: Error {
    let line: Int
    let message: String
  }

  private let nodes: [Node]

  subscript(index: Int) -> Node { nodes[index] }

  /// The outermost value; nil for an empty file, and for one with only comments.
  var root: Node? { nodes.first }

  /// Parses the text of a file with at most one document.
  init(_ text: String) throws(Malformed) {
    var parser = unsafe yaml_parser_t()
    guard unsafe yaml_parser_initialize(&parser) == 1 else { throw .outOfMemory }
    defer { unsafe yaml_parser_delete(&parser) }
    var bytes = Array(text.utf8)
    // The parser keeps the address until it is deleted.
    let result: Result<[Node], Malformed> = unsafe bytes.withUnsafeMutableBufferPointer { input in
      unsafe yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING)
      unsafe yaml_parser_set_input_string(&parser, input.baseAddress, input.count)
      do throws(Malformed) {
        let nodes = unsafe try Self.nextDocument(&parser, text).nodes
        if !nodes.isEmpty {
          let second = unsafe try Self.nextDocument(&parser, text)
          guard second.nodes.isEmpty else {
            throw Malformed(line: second.line, message: "another document begins; only one is read")
          }
        }
        return .success(nodes)
      } catch {
        return .failure(error)
      }
    }
    nodes = try result.get()
  }

  /// Returns the next document's values, the root first, and its line; no values at the end.
  private static func nextDocument(
    _ parser: inout yaml_parser_t, _ text: String
  ) throws(Malformed) -> (nodes: [Node], line: Int) {
    var document = unsafe yaml_document_t()
    guard unsafe yaml_parser_load(&parser, &document) == 1 else {
      throw unsafe Malformed(parser, text)
    }
    defer { unsafe yaml_document_delete(&document) }
    let line = unsafe Int(document.start_mark.line) + 1
    guard let first = unsafe document.nodes.start else { return ([], line) }
    let count = unsafe document.nodes.top - first
    return (unsafe UnsafeBufferPointer(start: first, count: count).map { unsafe Node($0) }, line)
  }
}

extension YAMLDocument.Node {
  /// Copies a node; libyaml counts nodes from 1.
  fileprivate init(_ node: yaml_node_t) {
    line = unsafe Int(node.start_mark.line) + 1
    switch unsafe node.type {
    case YAML_SEQUENCE_NODE:
      let items = unsafe node.data.sequence.items
      let list = unsafe UnsafeBufferPointer(start: items.start, count: items.top - items.start)
      content = .sequence(unsafe list.map { Int($0) - 1 })
    case YAML_MAPPING_NODE:
      let pairs = unsafe node.data.mapping.pairs
      let list = unsafe UnsafeBufferPointer(start: pairs.start, count: pairs.top - pairs.start)
      content = .mapping(unsafe list.map { (key: Int($0.key) - 1, value: Int($0.value) - 1) })
    default:
      let scalar = unsafe node.data.scalar
      let bytes = unsafe UnsafeBufferPointer(start: scalar.value, count: scalar.length)
      content = .scalar(
        unsafe String(decoding: bytes, as: UTF8.self),
        isPlain: unsafe scalar.style == YAML_PLAIN_SCALAR_STYLE)
    }
  }
}

extension YAMLDocument.Malformed {
  fileprivate static let outOfMemory = Self(line: 1, message: "out of memory")

  /// Creates an error from the problem that stopped `parser`.
  fileprivate init(_ parser: yaml_parser_t, _ text: String) {
    guard let problem = unsafe parser.problem else {
      self = .outOfMemory
      return
    }
    let message = unsafe String(cString: problem)
    if unsafe parser.error == YAML_READER_ERROR {
      // The reader reports the character and its offset in bytes, not its line.
      let before = unsafe text.utf8.prefix(Int(parser.problem_offset))
      let character = unsafe Unicode.Scalar(UInt32(bitPattern: parser.problem_value))
      line = before.count { $0 == UInt8(ascii: "\n") } + 1
      self.message = message + (character.map { " '\($0)'" } ?? "")
      return
    }
    line = unsafe Int(parser.problem_mark.line) + 1
    let context = unsafe parser.context.map {
      unsafe " (\(String(cString: $0)), line \(parser.context_mark.line + 1))"
    }
    self.message = message + (context ?? "")
  }
}
