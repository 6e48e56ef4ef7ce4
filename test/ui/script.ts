/** A message that the scripted agent performs. */
export function script(steps: readonly unknown[]): string {
  return `#script ${JSON.stringify(steps)}`;
}
