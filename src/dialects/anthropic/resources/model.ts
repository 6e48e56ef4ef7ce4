import { z } from "zod";

const LEVELS = ["low", "medium", "high", "xhigh", "max"] as const;
const Level = z.enum(LEVELS);

/** A model by its name, or with how it is to be used. */
export const ModelParams = z.union([
  z.string().min(1).max(256),
  z.object({
    id: z.string().min(1).max(256),
    effort: z
      .union([Level, z.object({ type: Level })])
      .transform((effort) => (typeof effort === "string" ? { type: effort } : effort))
      .nullish(),
    inference_geo: z.string().nullish(),
    speed: z.enum(["standard", "fast"]).nullish(),
  }),
]);
export type ModelParams = z.infer<typeof ModelParams>;

export interface Model {
  readonly id: string;
  readonly effort?: { readonly type: (typeof LEVELS)[number] };
  readonly inference_geo?: string;
  readonly speed: "standard" | "fast";
}

/** A model replaces the one before as a whole, but for an effort that is not mentioned. */
export function resolveModel(given: ModelParams, before?: Model): Model {
  const { id, effort, inference_geo, speed } = typeof given === "string" ? { id: given } : given;
  const kept = effort === undefined ? before?.effort : (effort ?? undefined);
  return {
    id,
    ...(kept && { effort: kept }),
    ...(inference_geo && { inference_geo }),
    speed: speed ?? "standard",
  };
}
