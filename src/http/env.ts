import type { HttpBindings } from "@hono/node-server";

/** What a route finds in its context. Without Node's bindings the app is called in process. */
export interface AppEnv {
  Bindings: Partial<HttpBindings>;
  Variables: {
    /** The CORS headers of this answer, for a stream that writes its own. */
    cors: Readonly<Record<string, string>>;
    /** Whose shelf of the catalog the key opens. */
    owner: string;
    /** What an answer of the Anthropic dialect is called, in its header and in its error. */
    requestId: string;
  };
}
