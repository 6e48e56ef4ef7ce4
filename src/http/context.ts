import type { Duplex } from "node:stream";
import type { HttpBindings } from "@hono/node-server";
import type { Context, Hono, MiddlewareHandler } from "hono";
import type { Access } from "./access/access.ts";

/** The context of a route. Node's bindings are absent if the app is called in process. */
export interface AppEnv {
  Bindings: Partial<HttpBindings> & {
    /** The connection of a request for a WebSocket. */
    upgrade?: Upgrade;
  };
  Variables: {
    /** The CORS headers of the response. Streams read them here, as they write their own head. */
    cors: Readonly<Record<string, string>>;
    /** Absent before the request is assigned to a dialect. */
    dialect?: ServedDialect;
    /** The rights of the sender. */
    access: Access;
    /** The tenant whose documents the key opens. */
    tenant: string;
    /** Whether another node has checked the sender and forwarded the request. */
    isForwarded?: boolean;
    /** The id of a response of the Anthropic dialect. Its header and its error body have it. */
    requestId: string;
  };
}

/** A connection whose client wants to speak another protocol, and the first bytes of it. */
export interface Upgrade {
  readonly socket: Duplex;
  readonly head: Buffer;
}

/** A client's language, served below one prefix. */
export interface ServedDialect {
  readonly prefix: string;
  /**
   * Loads the dialect's code and mounts its routes. Absent if the dialect needs a catalog and the server has none.
   * The returned function ends the dialect's waits when the server closes.
   */
  readonly mount?: (app: Hono<AppEnv>) => Promise<(() => void) | undefined>;
  /** The form of its errors; problem details if absent. */
  readonly toFailure?: (error: unknown, c: Context<AppEnv>, logger: Logger) => Response;
  /** The access of a request without a token; undefined where it needs one. */
  readonly admits?: (c: Context<AppEnv>) => Access | undefined | Promise<Access | undefined>;
  /** Runs around every request below the prefix, including refused ones. */
  readonly around?: MiddlewareHandler<AppEnv>;
  /** Accepts `X-Api-Key` beside the bearer token. */
  readonly takesApiKeys?: true;
  /** A preflight allows every header: clients of this dialect add headers with each version. */
  readonly allowsAnyHeader?: true;
}

/** The server's own log. It never holds a token, a header or a body. */
export type Logger = (line: LogLine) => void;

export interface LogLine {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly message: string;
  readonly [field: string]: unknown;
}

export const stderrLogger: Logger = (line) => {
  process.stderr.write(`${JSON.stringify({ time: new Date().toISOString(), ...line })}\n`);
};
