/** What a harness asks a sandbox to start. Paths are in-sandbox paths. */
export interface Launch {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Files to place before the start; relative paths are under the agent's home. */
  readonly files?: readonly { readonly path: string; readonly content: string; readonly mode?: number }[];
}
