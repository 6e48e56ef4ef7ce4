import type { MiddlewareHandler } from "hono";
import { SluiceError } from "../../contract/index.ts";
import type { AppEnv } from "../env.ts";
import { CALLBACKS, PREFIX } from "./path.ts";

export const MANAGED_AGENTS_BETA = "managed-agents-2026-04-01";

/** Files and skills are not among them: the SDK sends no beta header there. */
const GROUPS = /^(sessions|agents|environments|vaults)(\/|$)/;

/** The header is a list, as the SDK adds to what the caller gives. Any `anthropic-version` will do. */
export const requireBeta: MiddlewareHandler<AppEnv> = async (c, next) => {
  const { path } = c.req;
  if (!GROUPS.test(path.slice(PREFIX.length + 1)) || CALLBACKS.test(path)) return next();
  const given = (c.req.header("anthropic-beta") ?? "").split(",").map((beta) => beta.trim().toLowerCase());
  if (given.includes(MANAGED_AGENTS_BETA)) return next();
  const detail = `This is a beta: send the header "anthropic-beta: ${MANAGED_AGENTS_BETA}".`;
  throw new SluiceError("invalid_request", detail);
};
