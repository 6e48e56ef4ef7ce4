import { z } from "zod";

/** Whether a tool runs by itself, or only when somebody says so. */
export const Policy = z.union([
  z.object({ type: z.literal("always_allow") }),
  z.object({ type: z.literal("always_ask") }),
  z.object({ type: z.literal("auto") }),
]);
export type Policy = z.infer<typeof Policy>;

export const Switch = z.object({ enabled: z.boolean().nullish(), permission_policy: Policy.nullish() });
export type Switch = z.infer<typeof Switch>;

export interface ResolvedSwitch {
  readonly enabled: boolean;
  readonly permission_policy: Policy;
}

export function resolveSwitch(given: Switch | null | undefined, otherwise: ResolvedSwitch): ResolvedSwitch {
  return {
    enabled: given?.enabled ?? otherwise.enabled,
    permission_policy: given?.permission_policy ?? otherwise.permission_policy,
  };
}
