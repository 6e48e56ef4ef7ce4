export const CURES: Readonly<Record<string, string>>;
