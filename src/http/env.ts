import type { HttpBindings } from "@hono/node-server";

/** What a route finds in its context. Without Node's bindings the app is called in process. */
export interface AppEnv {
  Bindings: Partial<HttpBindings>;
  Variables: {
    /** The CORS headers of this answer, for a stream that writes its own. */
    cors: Readonly<Record<string, string>>;
  };
}
