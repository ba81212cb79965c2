// The parts of node that are used; so the client compiles without its types.
interface Buffer extends Uint8Array {
  toString(encoding?: string, start?: number, end?: number): string;
  equals(other: Uint8Array): boolean;
  indexOf(found: string | number, from?: number): number;
  subarray(start?: number, end?: number): Buffer;
}
declare const Buffer: {
  alloc(size: number): Buffer;
  byteLength(text: string): number;
  concat(parts: Uint8Array[]): Buffer;
  from(text: string | Uint8Array, encoding?: string): Buffer;
  isBuffer(value: unknown): value is Buffer;
};
declare const process: {
  env: Record<string, string | undefined>; platform: string; arch: string; stderr: { write(text: string): void };
  nextTick(callback: () => void): void;
};
declare const console: { error(text: string): void; warn(text: string): void };
declare function queueMicrotask(callback: () => void): void;
declare function setInterval(callback: () => void, milliseconds: number): { unref(): void };
declare function clearInterval(timer: unknown): void;
declare function setTimeout(callback: () => void, milliseconds: number): unknown;
declare function clearTimeout(timer: unknown): void;
declare module 'node:buffer' { export function isUtf8(bytes: Uint8Array): boolean; }
declare module 'node:net' {
  export interface Socket {
    on(event: string, listener: (argument: unknown) => void): unknown;
    cork(): void;
    uncork(): void;
    write(data: string | Uint8Array, done: (error?: Error | null) => void): unknown;
    pause(): unknown;
    resume(): unknown;
    ref(): unknown;
    unref(): unknown;
    destroy(): unknown;
  }
  export function createConnection(path: string): Socket;
  export function isIPv4(text: string): boolean;
  export function isIPv6(text: string): boolean;
}
declare module 'node:crypto' {
  export function randomBytes(size: number): Buffer;
  interface Hash { update(content: string | Uint8Array): Hash; digest(form: string): string }
  export function createHash(name: string): Hash;
}
declare module 'node:fs' {
  export function existsSync(path: string): boolean;
  export function statSync(path: string): { ino: number; ctimeMs: number; isSocket(): boolean };
  export function mkdtempSync(prefix: string): string;
  export function mkdirSync(path: string, options: object): void;
  export function writeFileSync(path: string, text: string): void;
  export function rmSync(path: string, options: object): void;
}
declare module 'node:os' { export function tmpdir(): string; }
declare module 'node:child_process' {
  export function spawn(command: string, words: string[], options: object): {
    exitCode: number | null; stdin: { unref(): void }; kill(signal?: string): void;
    ref(): void; unref(): void;
    once(event: string, listener: () => void): void;
  };
}
declare module 'node:module' { export function createRequire(url: string): { resolve(path: string): string }; }
declare class URL { constructor(text: string, base?: string); readonly hostname: string; }
interface ImportMeta { readonly url: string; }
declare class AbortSignal {
  readonly aborted: boolean;
  readonly reason: unknown;
  addEventListener(event: string, listener: () => void): void;
  removeEventListener(event: string, listener: () => void): void;
}
