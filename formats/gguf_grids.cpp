// The types whose groups of 4 or 8 numbers are points of a grid: a list of the points that occur, which is a
// fact of the format, and for each group the place of its point in the list.
#include <string_view>

#include "formats/gguf_unpack.h"

namespace lathe::formats::gguf {
namespace {

// A grid's points are numbers to the base of its levels, the first coordinate the lowest digit, in rising
// order. Written as the gaps between them: 0-9, A-Z, a-z are gaps of 0 to 61 points, ~ is 62 more.
struct Grid {
  int levels, axes;
  std::string_view gaps;
};

constexpr Grid kIq2Xxs{
    3, 8,
    "01111115131115531515B7153DTBB1HZP1591513B915B513BDJ19N1HTH5315B3151LNNt9~71597HB53D5BH79l9n5B3BJfVXD"
    "~515HRP3~5jh15LF71n7l1~H15HDdRJ~XNBl~~1p155315573915HHR73N7N79T5BZFL9x~J15H3nf39tVH5351Z5NPj~7~H1N~B"
    "bf95Vxx~F5HNTdtTZ3~N1j~~9~~~R15JRRBB~1~9153DHZVXLJHb~J~P~B5B5jLdvnJ9~P~~th~~LXLT~B~X~~~~Fl"};
constexpr Grid kIq2Xs{
    3, 8,
    "01111111111113111111131511131319111111111151113155315H1113159153D7J11111113151113113915H11131591597R"
    "15D31RN111111535155BH7115HR5JH5h3911111113151113157115H111315915HB1D113HHZ1113159131B5R15HrBLl151FBJ"
    "L3j~5f11111115915HH915H5FVJXN315F1rR9VBFx3519LJDvBNBb31J111111131511111153515H111315915H3F7151D1r111"
    "3131915HBF15B5h97L5j15H377X9J5FV~F1113155315HR153D1pTn11597H9H75l5dVL7BF7XR91~lN15HB7BJ1~dDTFD~DH3h~"
    "Ppn~1X7X1113157115H1L11113H95bHZ1F531511DHFJTjJbR5FL91L7~XX579315HDFNJR~BJJ3P55~1b1h~RdbxVZ13197jj5X"
    "313JRHZd~~JJJ913l55r1j1bF"};
constexpr Grid kIq2S{
    3, 8,
    "0111111111111311111113111111131533111111113151113111131315115151113157111113D33377111111131111111111"
    "1111151111313151111111113131111111315111315911113D31315915H11131111331111111131537D115111373131597H9"
    "17319XB11111113113111311111113113313151111111111113111111131511131F1313515351F15H1113111131311111113"
    "1511131591111111315111315915H31315915HP11111313711131591N111315915FL95HDd1113111133115117573D1151157"
    "11515915H7B3135N1F3111131315111315915H31315915D3R15HFb351F15PH115vLBRB1J1111111111131111111111151531"
    "315111311111151111111315111315915111553131591N11111111111131111111315111315911111113151113157115H111"
    "315915HL5131111315111315B5H111315915HDD15Hr111311111113111111131511131F1111111315111315915H31315915F"
    "1R1111111315111315915H111315915HR15D3r11131591579R15HrFfJ311311131531315B5H111315915HFD5HDV731315915"
    "HR15H7FDF~3F15dJBP~Lh71113131351511137351F13111131511131F15F13311F15j111111137111315915H111315915H7J"
    "15F1r351F15b71NLpL1BH713111155111315915H351F157b15Hn3111315915HDD15Hf37VFX15D3p1X3~hH33375115b5RLX5B"
    "31T31F315HXD5F~dpFnjJR1913ZJ"};
constexpr Grid kIq3Xxs{
    8, 4,
    "0114130168O1314163216AB71146161395D3501AYIJ4AB135IFoMJ31KDF14161411A0N1661k14166X51D8CFA3Yd3HIB~EDV1"
    "6141328U112166Q30716501C0CJ63h3WDNJ9Q~61AMR6161KC451D8A1Q14CKFEHyEI55BQUHKdKJAD1B3~EJE0F5GTUaAWDK~E2"
    "1DnMM75FMUDV7eSA3Y7M~GhDnF1DSVTaZ5~7WamdDn110HFh9fQ4LCDKWFU1H~5"};
constexpr Grid kIq3S{
    8, 4,
    "00021000111035412111416220001303223136C345031022232352111C275321612531C132A3125525E91B134531E4A21DGE"
    "611B134C3J0013011101621D128501213462561D51921035529296220255034G5A141C16313K62561Ec32C1Q1416B3G57011"
    "101112130161121C02121523223256N229146193923123814165DA582623O2648C0AC7149R3J3C1A4P611126114121957116"
    "41CF9319591BO6341308135D75436G53C61A499CIIV1C1AY35532266F9411654553J144394E25B414163Y1HA0OB19WOGJN4A"
    "A5O535D322B5411468V58945CM40EC4B552B9BZBI1sV1Ds11B1KFF6SLH5A457B4EqDED2OJKQe1q3281B1B5F6AE1R23526GON"
    "2DL354NfFVMc"};
constexpr Grid kIq1{
    3, 8,
    "0111112413145117413144131305111045313131110651174131441314554311311221131A117555330E5551007117133001"
    "001111111821111001D3B1511120315513A1314413145374131441314513405702513B111541314413145522411114413190"
    "1340515313102B1142511111113135300000011377151F117441311131751175314010234200111001311531201001102313"
    "110011111111004000010110011100110010010011510070011331001112000210100522173B3751111311001115519D1131"
    "2600131001003372011331866161111113315532913144111145522413144111145135603511110074415541124131453155"
    "4112413147115700131115751322B55513131023119120111111541455554054137913144131451941319131721359131511"
    "154414041319131453154131441314537B3111111F3233011131001131511110010411111311400A51175913338495B28511"
    "1100401111311114052013110011331100110100002100130013100104111224011113111120010131132330511752346413"
    "1311155111552020201311333100001111025131003111FF1151133D95100131311313131001517151203151001100001300"
    "1110011000000001100131510011331351311713110013184112038051000022111100100010000010000115111001210310"
    "0001100000101100110000000100000000001000001102000100002100110001002101010000000220000000000000110231"
    "0000123210004001131364111100001100641111352013110015510011000000001100122221000057263030151022000311"
    "116210011B711575300111112C751113150215222015023421531B31A037002C537E01021311111111001001170211000011"
    "135111201D0011010012100161012010210044544001311110001031211331001212E1559131555474153511110200310011"
    "3320445102B30C13131130266215313191314401115413144131451115513111000411524115413144131A135413144131C3"
    "B1623113D3B53135110213100104001111111117D31551300320132456351314413112513521131441314041175111111311"
    "99154131441314511C1314413145300553151170451115511113111111134010013171511311155135711111171571A21133"
    "1737110000100171500135131100100122201100110000000011001221300001001111115321415102010151403020071159"
    "155331102308531571111111001131111110013102115113137887111313B5100C1314413145111A131441314221110E1221"
    "11194121C310633145315413144131G55152011120005R111117131510015311001311F53212712210021B33012113131913"
    "1A111A13144131473225733131A4C1319131A11C13144131"};

int gap_of(char c) {
  if (c <= '9') return c - '0';
  if (c <= 'Z') return c - 'A' + 10;
  return c - 'a' + 36;
}

int bits_of(const Grid& grid) { return grid.levels <= 4 ? 2 : 3; }

// The points with a field of bits for each coordinate.
std::vector<int> points(const Grid& grid) {
  constexpr int kLongGap = 62;
  std::vector<int> out;
  int at = -1;
  for (const char c : grid.gaps) {
    if (c == '~') {
      at += kLongGap;
      continue;
    }
    at += gap_of(c) + 1;
    int packed = 0, rest = at;
    for (int axis = 0; axis < grid.axes; ++axis, rest /= grid.levels)
      packed |= rest % grid.levels << axis * bits_of(grid);
    out.push_back(packed);
  }
  return out;
}

// The coordinates, as levels, of the points at these places: (..., k) to (..., k, axes).
Tensor coordinates(const Grid& grid, const Tensor& places) {
  return fields(looked_up(points(grid), places, dtypes::uint16), grid.axes, bits_of(grid));
}

// What the levels of a grid stand for.
Tensor levels_of_iq2(const Tensor& x) { return real(x * 17 + 8 + (x >> 1)); }  // 8, 25, 43
Tensor levels_of_iq3_xxs(const Tensor& x) {
  return real(x * 8 + 4 + ((x + 1) >> 3) * 2);
}  // 4, 12, ..., 52, 62
Tensor levels_of_iq3_s(const Tensor& x) { return real(x * 2 + 1); }
Tensor levels_of_iq1(const Tensor& x) { return real(x) - 1; }

// Eight signs from a byte of bits, 1 for minus.
Tensor signs(const Tensor& bits) { return 1 - real(fields(bits, 8, 1)) * 2; }
// Seven bits say the signs of seven numbers; of all eight an even number is minus.
Tensor eight_signs(const Tensor& seven) {
  const Tensor four = seven ^ (seven >> 4), two = four ^ (four >> 2), parity = (two ^ (two >> 1)) & 1;
  return signs(seven | (parity << 7));
}

// Numbers (blocks, 256 in whatever groups) times the scale of their part, (blocks, parts).
Tensor scaled(const Tensor& scale, const Tensor& numbers) {
  const Size parts = scale.size(1);
  return (scale.unsqueeze(-1) * numbers.reshape({scale.size(0), parts, Size(256 / parts.value())}))
      .flatten(1);
}

}  // namespace

// Eight parts: four places, then 4 x 7 bits of signs and 4 of scale.
Tensor iq2_xxs(const Tensor& b) {
  const Tensor parts = part(b, 2, 66).reshape({b.size(0), 8, 8});
  const Tensor places = parts.getitem({Slice{}, Slice{}, Slice{0, 4}}).flatten(1);
  const Tensor rest = long_words(parts.getitem({Slice{}, Slice{}, Slice{4, 8}}).flatten(1));
  const Tensor scale = half_at(b, 0) * (real(rest >> 28) + 0.5) * 0.25;
  const Tensor seven = fields(rest, 4, 7).flatten(1);
  return scaled(scale, levels_of_iq2(coordinates(kIq2Xxs, places)) * eight_signs(seven));
}

// Places of 9 bits with 7 bits of signs; a scale of 4 bits for every 16.
Tensor iq2_xs(const Tensor& b) {
  const Tensor both = words(part(b, 2, 66));
  const Tensor scale = half_at(b, 0) * (real(fields(part(b, 66, 74), 2, 4).flatten(1)) + 0.5) * 0.25;
  return scaled(scale, levels_of_iq2(coordinates(kIq2Xs, both & 511)) * eight_signs(both >> 9));
}

// Places of 8 bits, signs, the upper 2 bits of places, scales for every 16.
Tensor iq2_s(const Tensor& b) {
  const Tensor high = word(fields(part(b, 66, 74), 4, 2).flatten(1));
  const Tensor places = word(part(b, 2, 34)) | (high << 8);
  const Tensor scale = half_at(b, 0) * (real(fields(part(b, 74, 82), 2, 4).flatten(1)) + 0.5) * 0.25;
  return scaled(scale, levels_of_iq2(coordinates(kIq2S, places)) * signs(part(b, 34, 66)));
}

// Places, then for each of eight parts 4 x 7 bits of signs and 4 of scale.
Tensor iq3_xxs(const Tensor& b) {
  const Tensor rest = long_words(part(b, 66, 98));
  const Tensor scale = half_at(b, 0) * (real(rest >> 28) + 0.5) * 0.5;
  const Tensor numbers = levels_of_iq3_xxs(coordinates(kIq3Xxs, part(b, 2, 66)));
  return scaled(scale, numbers.reshape({b.size(0), 32, 8}) * eight_signs(fields(rest, 4, 7).flatten(1)));
}

// Places of 8 bits, their ninth bits, signs, scales for every 32.
Tensor iq3_s(const Tensor& b) {
  const Tensor places = word(part(b, 2, 66)) | (word(fields(part(b, 66, 74), 8, 1).flatten(1)) << 8);
  const Tensor scale = half_at(b, 0) * (real(fields(part(b, 106, 110), 2, 4).flatten(1)) * 2 + 1);
  const Tensor numbers = levels_of_iq3_s(coordinates(kIq3S, places));
  return scaled(scale, numbers.reshape({b.size(0), 32, 8}) * signs(part(b, 74, 106)));
}

// Numbers -1, 0, 1, all of a part moved by an eighth up or down. A part is 32: 4 x 3 upper bits of places, 3
// of scale, 1 for the direction.
Tensor iq1_s(const Tensor& b) {
  const Tensor high = words(part(b, 34, 50));
  const Tensor places = word(part(b, 2, 34)) | (fields(high, 4, 3).flatten(1) << 8);
  const Tensor scale = half_at(b, 0) * (real((high >> 12) & 7) * 2 + 1);
  const Tensor moved = (0.125 - real(high >> 15) * 0.25).unsqueeze(-1);
  const Tensor numbers = levels_of_iq1(coordinates(kIq1, places)).reshape({b.size(0), 8, 32});
  return scaled(scale, numbers + moved);
}

// The same, with a scale for every 16 and a direction for every 8. The block's own scale is in the upper
// bits of the words of scales.
Tensor iq1_m(const Tensor& b) {
  const Tensor four = words(part(b, 48, 56)), top = four >> 12;
  const auto quarter = [&](std::int64_t i) { return top.shrink({{0, b.size(0)}, {i, i + 1}}) << (4 * i); };
  const Tensor whole = real((quarter(0) | quarter(1) | quarter(2) | quarter(3)).bitcast(dtypes::float16));
  const Tensor scale = whole * (real(fields(four, 4, 3).flatten(1)) * 2 + 1);
  const Tensor high = word(fields(part(b, 32, 48), 2, 4).flatten(1));
  const Tensor places = word(part(b, 0, 32)) | ((high & 7) << 8);
  const Tensor moved = (0.125 - real(high >> 3) * 0.25).unsqueeze(-1);
  return scaled(scale, levels_of_iq1(coordinates(kIq1, places)) + moved);
}

}  // namespace lathe::formats::gguf
