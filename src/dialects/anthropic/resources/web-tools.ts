import { z } from "zod";
import { refuse } from "./resource.ts";

const Domains = z
  .array(
    z
      .string()
      .regex(
        /^[A-Za-z0-9*]([A-Za-z0-9.*-]*[A-Za-z0-9])?$/,
        "a plain host name, without scheme, port or path",
      ),
  )
  .min(1, "leave it out instead of giving an empty list")
  .max(64);
const domains = { allowed_domains: Domains.nullish(), blocked_domains: Domains.nullish() };

const ToolReference = z.object({ type: z.literal("tool_reference"), name: z.string().min(1) });
const All = z.object({ type: z.literal("all") });
const None = z.object({ type: z.literal("none") });
const Shorthand = z.enum(["all", "none"]).transform((type) => ({ type }));
const References = z.array(ToolReference).min(1).max(128);
const ToolFilter = z.union([
  Shorthand,
  All,
  None,
  z.object({ type: z.literal("only"), tools: References }),
  z.object({ type: z.literal("except"), tools: References }),
]);

const UrlSources = z.object({
  client_tool_results: ToolFilter.nullish().transform((value) => value ?? null),
  server_tool_results: ToolFilter.nullish().transform((value) => value ?? null),
  user_input: z
    .union([Shorthand, All, None])
    .nullish()
    .transform((value) => value ?? null),
});

export const webFetch = {
  ...domains,
  max_content_tokens: z.int().min(1).nullish(),
  url_sources: UrlSources.nullish(),
};

export const webSearch = {
  ...domains,
  user_location: z
    .object({
      type: z.literal("approximate"),
      city: z.string().nullish(),
      country: z.string().nullish(),
      region: z.string().nullish(),
      timezone: z.string().nullish(),
    })
    .nullish(),
};

interface WebConfig {
  readonly name: string;
  readonly allowed_domains?: string[] | null | undefined;
  readonly blocked_domains?: string[] | null | undefined;
  readonly max_content_tokens?: number | null | undefined;
  readonly url_sources?: z.infer<typeof UrlSources> | null | undefined;
  readonly user_location?: z.infer<typeof webSearch.user_location>;
}

export function resolveWebConfig(config: WebConfig): Record<string, unknown> {
  const { name, allowed_domains, blocked_domains, max_content_tokens, url_sources, user_location } = config;
  if (allowed_domains && blocked_domains)
    throw refuse(`${name}: allowed_domains and blocked_domains exclude each other.`);
  return {
    ...(allowed_domains && { allowed_domains }),
    ...(blocked_domains && { blocked_domains }),
    ...(max_content_tokens && { max_content_tokens }),
    ...(user_location && { user_location }),
    ...(name === "web_fetch" && { url_sources: url_sources ?? null }),
  };
}
