#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#else
  import Darwin
#endif

/// Values by small numbers, in pages. A page exists as long as it has values, and a value never
/// moves, so no step of growing or shrinking affects more than a page, however many values there
/// are. (An array that outgrows its memory is moved as a whole, and freed as a whole.)
///
/// Each page is its own mapping, so the system gets its memory back as soon as it is empty (page 0,
/// often the only one, with the table). A page takes memory only as far as it was used.
///
/// Public, so that other modules can specialize it for the type of their values.
public struct PagedTable<Value>: ~Copyable {
  @inlinable static var pageBits: UInt32 { 12 }
  @inlinable static var pageSize: Int { 1 << Int(pageBits) }
  @inlinable static var pageBytes: Int { pageSize * MemoryLayout<Value?>.stride }

  @usableFromInline @safe
  struct Page {
    /// Nil while the page does not exist.
    @usableFromInline var values: UnsafeMutablePointer<Value?>?
    /// The number of offsets that are initialized, from the start of the page.
    @usableFromInline var end = 0
    @usableFromInline var count = 0

    @inlinable init() {}
  }

  @usableFromInline var pages: ContiguousArray<Page> = []
  @usableFromInline var used = 0

  @inlinable public init() {}

  deinit {
    for page in pages {
      guard let values = unsafe page.values else { continue }
      unsafe values.deinitialize(count: page.end)
      unsafe Self.unmap(values)
    }
  }

  @inlinable public var count: Int { used }
  @inlinable public var isEmpty: Bool { used == 0 }

  @inlinable static func page(_ number: UInt32) -> Int { Int(number >> pageBits) }
  @inlinable static func offset(_ number: UInt32) -> Int { Int(number) & (pageSize - 1) }

  /// The value with a number, which must exist. O(1).
  @inlinable public subscript(number: UInt32) -> Value {
    _read { yield unsafe Self.pointer(number, in: pages).pointee! }
    _modify { yield unsafe &Self.pointer(number, in: pages).pointee! }
  }

  /// O(1).
  @inlinable public func contains(_ number: UInt32) -> Bool {
    let page = Self.page(number)
    guard page < pages.count, Self.offset(number) < pages[page].end else { return false }
    return unsafe pages[page].values![Self.offset(number)] != nil
  }

  /// Inserts a value at a free number. O(1) when numbers are reused or consecutive.
  @inlinable public mutating func insert(_ value: Value, at number: UInt32) {
    let (page, offset) = (Self.page(number), Self.offset(number))
    while pages.count <= page { pages.append(Page()) }
    let values = unsafe pages[page].values ?? Self.map()
    unsafe pages[page].values = values
    if offset >= pages[page].end {
      let end = pages[page].end
      unsafe (values + end).initialize(repeating: nil, count: offset + 1 - end)
      pages[page].end = offset + 1
    }
    precondition(unsafe values[offset] == nil, "the number is another's")
    unsafe values[offset] = value
    pages[page].count += 1
    used += 1
  }

  /// Removes and returns the value with a number, which must exist. O(1).
  @discardableResult
  @inlinable public mutating func remove(_ number: UInt32) -> Value {
    let page = Self.page(number)
    let offset = unsafe Self.pointer(number, in: pages)
    guard let value = unsafe offset.pointee else { preconditionFailure("nothing has that number") }
    unsafe offset.pointee = nil
    pages[page].count -= 1
    if pages[page].count == 0, page > 0 {
      unsafe Self.unmap(pages[page].values!)
      pages[page] = Page()
    }
    used -= 1
    return value
  }

  @inlinable
  static func pointer(
    _ number: UInt32, in pages: ContiguousArray<Page>
  ) -> UnsafeMutablePointer<Value?> {
    let page = pages[page(number)]
    precondition(offset(number) < page.end, "nothing has that number")
    return unsafe page.values! + offset(number)
  }

  @usableFromInline
  static func map() -> UnsafeMutablePointer<Value?> {
    #if os(Linux)
      let flags = MAP_PRIVATE | MAP_ANONYMOUS
    #else
      let flags = MAP_PRIVATE | MAP_ANON
    #endif
    guard let memory = unsafe mmap(nil, pageBytes, PROT_READ | PROT_WRITE, flags, -1, 0),
      unsafe memory != MAP_FAILED
    else { fatalError("out of memory") }
    return unsafe memory.bindMemory(to: Value?.self, capacity: pageSize)
  }

  @usableFromInline
  static func unmap(_ values: UnsafeMutablePointer<Value?>) { unsafe munmap(values, pageBytes) }
}
