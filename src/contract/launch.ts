/** A harness's request to start a process in a sandbox. Paths are in-sandbox paths. */
export interface Launch {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Host files and folders that the program needs beyond the system's, mounted read-only at the same paths. */
  readonly needs?: readonly string[];
  /** Hosts that the program has to reach, such as its model's: `host`, `host:port` or `*.domain`. */
  readonly hosts?: readonly string[];
  /** Files to write before the start; relative paths are below the agent's home. */
  readonly files?: readonly { readonly path: string; readonly content: string; readonly mode?: number }[];
  /** Where the egress proxy gets lent secrets. */
  readonly lending?: Lending;
}

/**
 * Where the egress host of a sandbox gets lent secrets; processes inside cannot. The request is a GET with
 * `sluice-nonce`, and as its bearer the HMAC-SHA-256 of the nonce under the token. The answer is `{secrets: LentSecret[]}`
 * in AES-256-GCM (12 bytes of iv, 16 of tag) under the HMAC of "answer", with the nonce as additional data.
 */
export interface Lending {
  readonly url: string;
  readonly token: string;
}

/** A secret that the egress proxy puts into requests; the sandbox has only its placeholder. */
export interface LentSecret {
  readonly placeholder: string;
  readonly value: string;
  /** `host` or `*.domain`. The default is every host that the sandbox may reach, except those of its harness. */
  readonly hosts?: readonly string[];
  readonly header: boolean;
  readonly body: boolean;
}
