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
  /** The source of lent secrets for the egress host. */
  readonly lending?: Lending;
  /** Set if the program's model requests go through the gateway. */
  readonly gateway?: GatewayLaunch;
}

/** The programs of a sandbox that has its own, on another machine. */
export interface Programs {
  readonly node: string;
  /** The path there of a file of sluice's own, which is copied there. */
  own(path: string): string;
  /** The real path of a program on the search path there. */
  find(name: string): string | undefined;
}

/**
 * The address at which the egress host of a sandbox gets lent secrets. Processes in the sandbox do not know the token.
 * The request is a GET with the header `sluice-nonce`. Its bearer token is the HMAC-SHA-256 of the nonce under `token`.
 * The answer is `{secrets: LentSecret[]}`, encrypted with AES-256-GCM (12 bytes of iv, 16 of tag). The key is the HMAC
 * of "answer" under `token`, and the nonce is the additional data.
 */
export interface Lending {
  readonly url: string;
  readonly token: string;
}

/** A secret that the egress host puts into requests; the sandbox has only its placeholder. */
export interface LentSecret {
  readonly placeholder: string;
  readonly value: string;
  /** `host` or `*.domain`. The default is every host that the sandbox may reach, except those of its harness. */
  readonly hosts?: readonly string[];
  readonly header: boolean;
  readonly body: boolean;
}

/** One line of a harness process, in either direction, from the spool or a recording. */
export interface SpoolLine {
  readonly dir: "in" | "out" | "err" | "exit" | "http-in" | "http-out" | "sse" | "meta";
  /** The line without its newline, invalid UTF-8 replaced by U+FFFD. */
  readonly text: string;
  /** Set if `text` lost bytes. */
  readonly damage?: { readonly reason: "utf8" | "too_long"; readonly sha256: string; readonly bytes: number };
  /** The position of the line: a byte offset of the `out` file, or a line number of a recording. */
  readonly at: number;
  /** Set on `exit`. */
  readonly exit?: ProcessExit;
}

export interface ProcessExit {
  readonly code?: number;
  readonly signal?: string;
  /** The wrapper was killed before it recorded the status. */
  readonly lost?: boolean;
}

/** The part of a process's output that has become events. It is committed with these events. */
export interface SpoolMark {
  readonly process: number;
  /** The `out` offset after the last decoded line. */
  readonly offset: number;
  /** The decoder state at `offset`, saved now and then so that earlier output can be deleted. */
  readonly checkpoint?: unknown;
}

/**
 * A model provider's address, as a sandbox uses it through the gateway: `<gateway>/<id>/…` stands for `<upstream>/…`.
 */
export interface ModelRoute {
  /** One path segment: lower case letters, digits and hyphens. */
  readonly id: string;
  /** The base URL of the provider's API. */
  readonly upstream: string;
  /** The provider's name in events. */
  readonly provider: string;
  readonly auth: RouteAuth;
  /** Set for a CLI that sends no key: the session's token is the first segment below the route's own. */
  readonly tokenInPath?: true;
  /** The base URL of the lists of models, if it is another one. */
  readonly lists?: string;
  /** Parts of the query that the provider needs and the agent does not know. */
  readonly query?: Readonly<Record<string, string>>;
}

/**
 * How a request is authorized. `header` carries the key, after the word `scheme`. `awsRegion`: the request is signed; the
 * key is a JSON object of AWS's variables. `googleTokenUrl`: the key is the JSON of a service account, which gets access
 * tokens there.
 */
export type RouteAuth =
  | { readonly header: string; readonly scheme?: "Bearer" }
  | { readonly awsRegion: string }
  | { readonly googleTokenUrl: string };

/** The settings of one sandbox's gateway. They hold no key: the gateway gets the key of each route from the desk. */
export interface GatewayLaunch {
  readonly routes: readonly ModelRoute[];
  readonly desk: Lending;
  /** Set if the answers are recorded, or come from a recording. */
  readonly cassette?: CassetteLaunch;
}

export interface CassetteLaunch {
  /** An absolute path of this host, without links. */
  readonly file: string;
  readonly mode: "record" | "replay" | "auto";
  /** The speed of a replay: 0 (the default) has no delays, 1 is the recorded speed, 2 is twice as fast. */
  readonly speed?: number;
}

/** A gateway's addresses, for the launch of an agent whose model requests go through it. */
export interface GatewayAccess {
  /** The gateway's base URL, as the next process of the sandbox sees it. */
  url(): Promise<string>;
  /** The entry of `Launch.hosts` that lets the sandbox reach the gateway. */
  readonly host: string;
  /** The file with the gateway's records, on this machine. */
  readonly records: string;
  /** Set if the sandbox uses this machine's network. A session's own proxy would then take the requests to the gateway. */
  readonly sharesNetwork?: true;
}

/**
 * Where the credential of an agent is. `outside`: the gateway has it, or the egress host puts it in place of a
 * placeholder. `plan_login`: the login of a plan, in the sandbox, because only its own CLI may use it. `inside`: any
 * other credential in the sandbox. `none`: the agent has no credential.
 */
export const CREDENTIAL_PLACES = ["outside", "plan_login", "inside", "none"] as const;
export type CredentialPlace = (typeof CREDENTIAL_PLACES)[number];
