/** What a harness asks a sandbox to start. Paths are in-sandbox paths. */
export interface Launch {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Host files and folders that the program itself needs, beyond the system's: seen at the same paths, read-only. */
  readonly needs?: readonly string[];
  /** Hosts that it has to reach, such as its model's; `host`, `host:port` or `*.domain`. */
  readonly hosts?: readonly string[];
  /** Files to place before the start; relative paths are under the agent's home. */
  readonly files?: readonly { readonly path: string; readonly content: string; readonly mode?: number }[];
}
