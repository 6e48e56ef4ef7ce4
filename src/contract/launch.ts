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
  /** Where the way out of the sandbox asks for the secrets that are lent to it. */
  readonly lending?: Lending;
}

/**
 * Where the server lends secrets to the way out of a sandbox, never to its inside. Asked by GET with `sluice-nonce` and
 * the HMAC-SHA-256 of it under the token as the bearer; answered by `{secrets: LentSecret[]}` as AES-256-GCM (12 bytes of
 * iv, 16 of tag) under the HMAC of "answer", with the nonce as additional data.
 */
export interface Lending {
  readonly url: string;
  readonly token: string;
}

/** A secret that requests carry to where it may go; inside of the sandbox there is only its placeholder. */
export interface LentSecret {
  readonly placeholder: string;
  readonly value: string;
  /** As `host` or `*.domain`; without, every host that the sandbox may reach, but those that its harness named. */
  readonly hosts?: readonly string[];
  readonly header: boolean;
  readonly body: boolean;
}
