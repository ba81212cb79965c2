// The parts of node and node-redis that are used; so the client compiles without their types.
declare module 'redis' {
  interface RedisClient {
    connect(): Promise<unknown>;
    disconnect(): Promise<unknown>;
    sendCommand(words: (string | Buffer)[], options?: object): Promise<unknown>;
    pSubscribe(
      patterns: string[], listener: (message: string, channel: string) => void): Promise<unknown>;
    subscribe(
      channels: string[], listener: (message: string, channel: string) => void): Promise<unknown>;
    on(event: string, listener: (error: Error) => void): unknown;
    readonly isOpen: boolean;
    readonly isReady: boolean;
  }
  export function createClient(options: object): RedisClient;
}
interface Buffer extends Uint8Array { toString(encoding?: string): string; }
declare const Buffer: {
  alloc(size: number): Buffer;
  from(text: string, encoding?: string): Buffer;
  isBuffer(value: unknown): value is Buffer;
};
declare const process: {
  env: Record<string, string | undefined>; stderr: { write(text: string): void };
  once(event: string, listener: () => void): void;
};
declare function setTimeout(callback: () => void, milliseconds: number): unknown;
declare module 'node:crypto' {
  export function randomBytes(size: number): Buffer;
  export function createHash(name: string): { update(text: string): { digest(form: string): string } };
}
declare module 'node:module' {
  export function createRequire(path: string): (name: string) => unknown;
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
    exitCode: number | null; kill(signal?: string): void;
    once(event: string, listener: () => void): void;
  };
}
declare class URL { constructor(text: string, base: string); readonly pathname: string; }
interface ImportMeta { readonly url: string; }
declare class AbortSignal {
  readonly aborted: boolean;
  addEventListener(event: string, listener: () => void): void;
}
